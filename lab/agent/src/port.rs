//! The serial port to the host.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nodeward_lab_agent::protocol::PORT_NAME;

/// Directory in which the kernel lists its serial ports by device name.
const PORTS: &str = "/sys/class/virtio-ports";
/// Number of attempts to open the port, which appears some time after its driver.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);

/// Opens the port to the host for reading and writing. Waits up to ten seconds for it to appear.
pub fn open() -> Result<File> {
    for _ in 0..TRIES {
        if let Some(path) = find() {
            let file = OpenOptions::new().read(true).write(true).open(&path);
            return file.with_context(|| format!("cannot open {}", path.display()));
        }
        std::thread::sleep(PAUSE);
    }
    bail!("no port named {PORT_NAME} in {PORTS}: are virtio_pci and virtio_console there?")
}

fn find() -> Option<PathBuf> {
    let entries = fs::read_dir(PORTS).ok()?;
    let port = entries.flatten().find(|port| {
        fs::read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == PORT_NAME)
    })?;
    let device = PathBuf::from("/dev").join(port.file_name());
    device.exists().then_some(device)
}

//! Access to the counts from inside the machine: the memory of a device.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use crate::reader::CountsReader;
use crate::sys::MappedWords;

const DEVICES: &str = "/sys/bus/pci/devices";
/// Makes the kernel look for devices that were added after its scan.
const RESCAN: &str = "/sys/bus/pci/rescan";
/// Vendor and device id of QEMU's shared memory (ivshmem).
const IVSHMEM_IDS: [&str; 2] = ["0x1af4", "0x1110"];

impl CountsReader<MappedWords> {
    /// Opens the counts of the machine that this program runs on. Needs root.
    ///
    /// # Errors
    /// If this is not a machine that counts.
    pub fn open_in_guest() -> Result<Self> {
        let device = match find()? {
            Some(device) => device,
            None => {
                // A machine restored from a snapshot got the device after the kernel's scan.
                fs::write(RESCAN, "1")?;
                find()?.ok_or_else(|| {
                    Error::new(ErrorKind::NotFound, "this is no machine of the lab that counts")
                })?
            }
        };
        fs::write(device.join("enable"), "1")?;
        let memory = device.join("resource2");
        let bytes = usize::try_from(fs::metadata(&memory)?.len()).map_err(Error::other)?;
        // Opened for writing although it is only read: otherwise the kernel may refuse to map it.
        let file = File::options().read(true).write(true).open(memory)?;
        Self::new(MappedWords::map(&file, bytes, false)?)
    }
}

fn find() -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(DEVICES)? {
        let device = entry?.path();
        if has_id(&device, "vendor", IVSHMEM_IDS[0]) && has_id(&device, "device", IVSHMEM_IDS[1]) {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

fn has_id(device: &Path, file: &str, expected: &str) -> bool {
    fs::read_to_string(device.join(file)).is_ok_and(|text| text.trim() == expected)
}

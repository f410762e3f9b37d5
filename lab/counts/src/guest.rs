//! Access to the counts from inside the machine: the memory of a device.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use crate::reader::Reader;
use crate::sys::MappedWords;

const DEVICES: &str = "/sys/bus/pci/devices";
/// Makes the kernel look for devices that were added after its scan.
const RESCAN: &str = "/sys/bus/pci/rescan";
/// Vendor and device id of QEMU's shared memory (ivshmem).
const VENDOR_AND_DEVICE: [&str; 2] = ["0x1af4", "0x1110"];

impl Reader<MappedWords> {
    /// Opens the counts of the machine that this program runs on. Needs root.
    ///
    /// # Errors
    /// If this is not a machine that counts.
    pub fn of_this_machine() -> Result<Self> {
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
        if says(&device, "vendor", VENDOR_AND_DEVICE[0])
            && says(&device, "device", VENDOR_AND_DEVICE[1])
        {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

fn says(device: &Path, file: &str, expected: &str) -> bool {
    fs::read_to_string(device.join(file)).is_ok_and(|text| text.trim() == expected)
}

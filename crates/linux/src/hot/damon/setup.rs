//! Configures DAMON for one process, and cleans up in every case.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::{Escape as _, Pid};

use super::Unavailability;
use super::files::{DamonFiles, number};
use super::names::{ACTION, CONTEXT, NR_KDAMONDS, SCHEME, STATE};
use crate::kernel_file;

/// Marks a configuration as nodeward's, also after nodeward was killed. It is stored in an interval
/// that the kernel does not use, because no watermark is checked (`metric` is none).
const OWNER_MARK: (&str, u64) =
    ("0/contexts/0/schemes/0/watermarks/interval_us", u64::from_be_bytes(*b"nodeward"));

/// Checks that no other program uses the machine's configuration: it is empty, switched off, or an
/// old one of nodeward (the caller has made sure that no other nodeward uses it).
pub fn check_unused(files: &dyn DamonFiles) -> std::result::Result<(), Unavailability> {
    let text = files.read(NR_KDAMONDS).unwrap_or_default();
    let count: u64 = text.parse().map_err(|_| {
        let why = format!("{} holds '{text}', not a number", files.path(NR_KDAMONDS).escaped());
        Unavailability::missing(why, "check that /sys is mounted as sysfs")
    })?;
    let running = (0..count).filter(|&index| is_on(files, index)).count();
    if running == 0 || (count == 1 && is_ours(files)) {
        return Ok(());
    }
    Err(in_use(format!("another program uses it ({running} of {count} in {NR_KDAMONDS} are on)")))
}

/// Checks that none of the kernel's own users of DAMON runs: they do not permit others beside them.
pub fn check_kernel_modules(root: &Path) -> std::result::Result<(), Unavailability> {
    let modules = fs::read_dir(root.join("sys/module")).into_iter().flatten().flatten();
    for module in modules {
        let name = module.file_name().escaped().to_string();
        let switch = module.path().join("parameters/enabled");
        let is_on = || kernel_file::read_to_string(&switch).is_ok_and(|text| text.trim() == "Y");
        if name.starts_with("damon_") && is_on() {
            return Err(Unavailability::missing(
                format!("the kernel uses it for {name}, which admits nobody else"),
                format!("switch that off (echo N > /sys/module/{name}/parameters/enabled)"),
            ));
        }
    }
    Ok(())
}

/// Returns true if a kernel thread of DAMON runs.
pub fn is_on(files: &dyn DamonFiles, index: u64) -> bool {
    files.read(&format!("{index}/state")).is_ok_and(|state| state == "on")
}

fn is_ours(files: &dyn DamonFiles) -> bool {
    files.read(OWNER_MARK.0).is_ok_and(|text| text == OWNER_MARK.1.to_string())
}

fn in_use(why: impl Into<String>) -> Unavailability {
    Unavailability::missing(why, "wait until that is done, or stop it")
}

/// A configuration, which is removed when the value is dropped.
pub struct DamonSetup<'a> {
    files: &'a dyn DamonFiles,
    has_ended: bool,
}

impl<'a> DamonSetup<'a> {
    /// Removes a configuration that was left behind, configures DAMON for a process and switches it
    /// on.
    ///
    /// # Errors
    /// `Unsupported`, also for a pid that does not exist.
    pub fn start(files: &'a dyn DamonFiles, pid: Pid) -> Result<Self> {
        if number(files, NR_KDAMONDS)? != 0 {
            clear(files).map_err(|source| files.write_error(NR_KDAMONDS, source))?;
        }
        // From here on there is something to clean up.
        let setup = Self { files, has_ended: false };
        setup.write(NR_KDAMONDS, &1)?;
        setup.write("0/contexts/nr_contexts", &1)?;
        setup.add_stat_scheme()?;
        setup.set_target(pid)?;
        setup.switch_on()?;
        Ok(setup)
    }

    fn set_target(&self, pid: Pid) -> Result<()> {
        match self.files.read(&format!("{CONTEXT}/avail_operations")) {
            Ok(text) if !text.split_whitespace().any(|word| word == "vaddr") => {
                return Err(Unavailability::missing(
                    "this kernel's DAMON does not watch processes",
                    "boot a kernel with CONFIG_DAMON_VADDR",
                )
                .error(ACTION));
            }
            _ => {} // Where the file is missing, the next write finds out.
        }
        self.write(&format!("{CONTEXT}/operations"), &"vaddr")?;
        self.write(&format!("{CONTEXT}/targets/nr_targets"), &1)?;
        self.write(&format!("{CONTEXT}/targets/0/pid_target"), &pid)
    }

    /// Adds a scheme that matches every region and does nothing to it.
    fn add_stat_scheme(&self) -> Result<()> {
        self.write(&format!("{CONTEXT}/schemes/nr_schemes"), &1)?;
        if self.files.list(&format!("{SCHEME}/tried_regions")).is_err() {
            return Err(Unavailability::missing(
                "this kernel's DAMON does not list in sysfs what it saw",
                "boot Linux 6.2 or later",
            )
            .error(ACTION));
        }
        self.write(OWNER_MARK.0, &OWNER_MARK.1)?;
        self.write(&format!("{SCHEME}/action"), &"stat")?;
        for property in ["sz", "nr_accesses", "age"] {
            self.write(&format!("{SCHEME}/access_pattern/{property}/min"), &0)?;
            self.write(&format!("{SCHEME}/access_pattern/{property}/max"), &u64::MAX)?;
        }
        Ok(())
    }

    fn switch_on(&self) -> Result<()> {
        self.files.write(STATE, "on").map_err(|source| match source.kind() {
            ErrorKind::ResourceBusy => {
                in_use("the kernel says that somebody else uses it").error(ACTION)
            }
            _ => self.files.write_error(STATE, source),
        })
    }

    fn write(&self, name: &str, value: &impl ToString) -> Result<()> {
        let written = self.files.write(name, &value.to_string());
        written.map_err(|source| self.files.write_error(name, source))
    }

    /// Removes the configuration, as dropping it does, and returns the error if that fails.
    pub fn end(mut self) -> Result<()> {
        self.has_ended = true;
        clear(self.files).map_err(|source| {
            let path = self.files.path(NR_KDAMONDS);
            let why = format!("{} cannot be cleared: {source}", path.escaped());
            let fix = format!("write off to {} and 0 to it", self.files.path(STATE).escaped());
            Unavailability::missing(why, fix).error(ACTION)
        })
    }
}

impl Drop for DamonSetup<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            // The error that led here matters more than one of cleaning up.
            let _ = clear(self.files);
        }
    }
}

/// Switches ours off, which waits for its end, and removes the configuration. If ours has ended by
/// itself, with its process, and another program has configured DAMON since and uses it, that is
/// left alone.
fn clear(files: &dyn DamonFiles) -> io::Result<()> {
    if is_ours(files) && is_on(files, 0) {
        files.write(STATE, "off")?;
    }
    files.write(NR_KDAMONDS, "0").or_else(|error| if is_ours(files) { Err(error) } else { Ok(()) })
}

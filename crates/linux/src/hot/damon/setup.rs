//! Setting DAMON up for one process, and clearing up in every case.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::{Escape as _, Pid};

use super::files::{Files, number};
use super::{Obstacle, WHAT};

/// How many kernel threads of DAMON are set up.
pub const COUNT: &str = "nr_kdamonds";
/// Switches ours.
pub const STATE: &str = "0/state";
/// What it watches, and how.
pub const CONTEXT: &str = "0/contexts/0";
/// What lists the regions.
pub const SCHEME: &str = "0/contexts/0/schemes/0";

/// Tells that a set-up is ours, also after we were killed. It stands where the kernel keeps a time
/// that it does not use, because nothing is to be compared with it (`metric` is none).
const MARK: (&str, u64) =
    ("0/contexts/0/schemes/0/watermarks/interval_us", u64::from_be_bytes(*b"nodeward"));

/// That nobody else uses the set-up of the machine: it is empty, switched off, or ours of old (the
/// caller has made sure that no nodeward is at it).
pub fn refuse_if_in_use(files: &dyn Files) -> std::result::Result<(), Obstacle> {
    let text = files.read(COUNT).unwrap_or_default();
    let count: u64 = text.parse().map_err(|_| {
        let why = format!("{} holds '{text}', not a number", files.path(COUNT).escaped());
        Obstacle::missing(why, "check that /sys is mounted as sysfs")
    })?;
    let running = (0..count).filter(|&index| is_on(files, index)).count();
    if running == 0 || (count == 1 && is_ours(files)) {
        return Ok(());
    }
    Err(in_use(format!("another program uses it ({running} of {count} in {COUNT} are on)")))
}

/// That none of the kernel's own users of DAMON runs: none of them lets others run beside it.
pub fn refuse_beside_modules(root: &Path) -> std::result::Result<(), Obstacle> {
    let modules = fs::read_dir(root.join("sys/module")).into_iter().flatten().flatten();
    for module in modules {
        let name = module.file_name().escaped().to_string();
        let switch = module.path().join("parameters/enabled");
        let is_on = || fs::read_to_string(&switch).is_ok_and(|text| text.trim() == "Y");
        if name.starts_with("damon_") && is_on() {
            return Err(Obstacle::missing(
                format!("the kernel uses it for {name}, which admits nobody else"),
                format!("switch that off (echo N > /sys/module/{name}/parameters/enabled)"),
            ));
        }
    }
    Ok(())
}

/// Whether a kernel thread of DAMON runs.
pub fn is_on(files: &dyn Files, index: u64) -> bool {
    files.read(&format!("{index}/state")).is_ok_and(|state| state == "on")
}

fn is_ours(files: &dyn Files) -> bool {
    files.read(MARK.0).is_ok_and(|text| text == MARK.1.to_string())
}

fn in_use(why: impl Into<String>) -> Obstacle {
    Obstacle::missing(why, "wait until that is done, or stop it")
}

/// What is set up. It is cleared with the value.
pub struct Setup<'a> {
    files: &'a dyn Files,
    has_ended: bool,
}

impl<'a> Setup<'a> {
    /// Clears what was left behind, sets DAMON up for a process and switches it on.
    ///
    /// # Errors
    /// `Unsupported`, also for a pid that does not exist.
    pub fn start(files: &'a dyn Files, pid: Pid) -> Result<Self> {
        if number(files, COUNT)? != 0 {
            clear(files).map_err(|source| files.refused(COUNT, source))?;
        }
        // From here on there is something to clear.
        let setup = Self { files, has_ended: false };
        setup.write(COUNT, &1)?;
        setup.write("0/contexts/nr_contexts", &1)?;
        setup.ask_for_regions()?;
        setup.choose_process(pid)?;
        setup.switch_on()?;
        Ok(setup)
    }

    fn choose_process(&self, pid: Pid) -> Result<()> {
        match self.files.read(&format!("{CONTEXT}/avail_operations")) {
            Ok(text) if !text.split_whitespace().any(|word| word == "vaddr") => {
                return Err(Obstacle::missing(
                    "this kernel's DAMON does not watch processes",
                    "boot a kernel with CONFIG_DAMON_VADDR",
                )
                .error(WHAT));
            }
            _ => {} // Where the file is missing, the next write finds out.
        }
        self.write(&format!("{CONTEXT}/operations"), &"vaddr")?;
        self.write(&format!("{CONTEXT}/targets/nr_targets"), &1)?;
        self.write(&format!("{CONTEXT}/targets/0/pid_target"), &pid)
    }

    /// A scheme that every region falls under, and that does nothing to it.
    fn ask_for_regions(&self) -> Result<()> {
        self.write(&format!("{CONTEXT}/schemes/nr_schemes"), &1)?;
        if self.files.list(&format!("{SCHEME}/tried_regions")).is_err() {
            return Err(Obstacle::missing(
                "this kernel's DAMON does not list in sysfs what it saw",
                "boot Linux 6.2 or later",
            )
            .error(WHAT));
        }
        self.write(MARK.0, &MARK.1)?;
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
                in_use("the kernel says that somebody else uses it").error(WHAT)
            }
            _ => self.files.refused(STATE, source),
        })
    }

    fn write(&self, name: &str, value: &impl ToString) -> Result<()> {
        let written = self.files.write(name, &value.to_string());
        written.map_err(|source| self.files.refused(name, source))
    }

    /// Clears it, as dropping it does, and tells if that failed.
    pub fn end(mut self) -> Result<()> {
        self.has_ended = true;
        clear(self.files).map_err(|source| {
            let path = self.files.path(COUNT);
            let why = format!("{} cannot be cleared: {source}", path.escaped());
            let fix = format!("write off to {} and 0 to it", self.files.path(STATE).escaped());
            Obstacle::missing(why, fix).error(WHAT)
        })
    }
}

impl Drop for Setup<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            // The error that led here matters more than one of clearing up.
            let _ = clear(self.files);
        }
    }
}

/// Switches ours off, which waits for its end, and removes what is set up. What somebody else has
/// set up since ours ended (by itself, with its process) and uses is left to them.
fn clear(files: &dyn Files) -> io::Result<()> {
    if is_ours(files) && is_on(files, 0) {
        files.write(STATE, "off")?;
    }
    files.write(COUNT, "0").or_else(|error| if is_ours(files) { Err(error) } else { Ok(()) })
}

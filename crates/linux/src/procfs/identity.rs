//! Reads the identity of a process: its start time, and the values that its program got at exec.

use std::path::Path;

use nodeward_machine::{Error, Result};
use nodeward_model::{Pid, ProcessIdentity};

use super::{boot_id, stat};
use crate::file_error::file_error;
use crate::kernel_file;

/// Reads the identity of the process that has a pid now, under `root`.
///
/// # Errors
/// `Gone` if it has exited; `Read` if its files may not be read.
pub fn read(root: &Path, pid: Pid) -> Result<ProcessIdentity> {
    let folder = root.join("proc").join(pid.to_string());
    let file = |name: &str| {
        let path = folder.join(name);
        kernel_file::read(&path).map_err(|source| file_error(pid, path, source))
    };
    let comm = file("comm")?;
    let started_ticks = stat::parse_start(&file("stat")?).ok_or_else(|| Error::Parse {
        path: folder.join("stat"),
        line: 1,
        expected: "PID (NAME) STATE and numbers".to_owned(),
    })?;
    let boot = boot_id::read(root);
    let boot_id = boot.map_err(|source| file_error(pid, boot_id::path(root), source))?;
    Ok(ProcessIdentity {
        pid,
        name: comm.strip_suffix(b"\n").unwrap_or(&comm).into(),
        boot_id,
        started_ticks,
        // Addresses of the stack, the program and the vdso, which each exec draws anew.
        auxv_checksum: crc32fast::hash(&file("auxv")?),
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use crate::test_wait::wait_until;

    use super::*;

    fn identity(pid: u32) -> ProcessIdentity {
        read(Path::new("/"), Pid::new(pid).unwrap()).unwrap()
    }

    /// Goal: the identity of a process is the same at each reading and differs from all others.
    #[test]
    fn a_process_is_only_itself() {
        let us = identity(std::process::id());
        assert!(us.is_same(&identity(std::process::id())));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let other = identity(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            !us.is_same(&ProcessIdentity { pid: us.pid, ..other }),
            "the same pid is not enough"
        );
        let gone = read(Path::new("/"), Pid::new(Pid::LIMIT).unwrap());
        assert!(gone.is_err_and(|error| error.is_gone()));
    }

    /// Goal: exec changes the identity of a process, though its pid and start time stay the same.
    #[test]
    fn exec_makes_another_program_of_it() {
        let mut child = Command::new("sh")
            .args(["-c", "read go; exec sleep 60"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let before = identity(child.id());
        drop(child.stdin.take());
        let is_sleeping = || identity(child.id()).name == "sleep";
        wait_until("the shell is another program", is_sleeping);
        let after = identity(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(before.started_ticks, after.started_ticks);
        assert!(!before.is_same(&after));
    }
}

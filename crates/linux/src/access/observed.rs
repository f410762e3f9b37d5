//! A process whose samples are wanted and whose memory is read.
//!
//! The file of its memory belongs to one address space: after exec or exit it reads as empty,
//! whatever runs under the pid then.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use nodeward_machine::{Error, Result};
use nodeward_model::Pid;
use nodeward_operands::CodeReader;

use crate::confinement::PrivilegedAction;
use crate::pidfd::{has_exited, open_pidfd};
use crate::process::{open_file, refuse_kernel_thread};

/// An observed process.
#[derive(Debug)]
pub struct ObservedProcess {
    pid: Pid,
    pidfd: OwnedFd,
    memory: File,
}

impl ObservedProcess {
    /// Takes hold of a process and of its memory.
    ///
    /// # Errors
    /// `Gone`, `KernelThread`, or `Denied` if its memory may not be read.
    pub fn open(pid: Pid) -> Result<Self> {
        let pidfd = open_pidfd(pid)?;
        refuse_kernel_thread(pid, &PathBuf::from(format!("/proc/{pid}")))?;
        Self { pid, memory: open_memory(pid)?, pidfd }.if_alive().ok_or(Error::Gone(pid))
    }

    /// Returns its pid.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns true if the process exited or called exec: the memory that was held is gone.
    pub fn memory_is_gone(&self) -> bool {
        // The kernel maps nothing at 0 and then refuses, but of a memory that is gone it reads
        // nothing.
        self.memory.read_at(&mut [0], 0).is_ok_and(|bytes| bytes == 0)
    }

    /// Takes hold of the memory that the process has now; `None` if it has exited or may no longer
    /// be read.
    pub fn after_exec(self) -> Option<Self> {
        let memory = open_memory(self.pid).ok()?;
        Self { memory, ..self }.if_alive()
    }

    /// Checks that the pid meant this process while files were opened by it.
    fn if_alive(self) -> Option<Self> {
        (!has_exited(&self.pidfd) && !self.memory_is_gone()).then_some(self)
    }
}

fn open_memory(pid: Pid) -> Result<File> {
    let path = PathBuf::from(format!("/proc/{pid}/mem"));
    open_file(pid, path, File::options().read(true), PrivilegedAction::Memory)
}

impl CodeReader for &ObservedProcess {
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        self.memory.read_at(into, address).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::own_process::{AreaBacking, MappedArea};
    use crate::test_wait::wait_until;

    fn own() -> ObservedProcess {
        ObservedProcess::open(Pid::new(std::process::id()).unwrap()).unwrap()
    }

    /// Goal: memory is read as it is now, up to its end, and nothing is read where nothing is
    /// mapped.
    #[test]
    fn memory_is_read_up_to_its_end() {
        let page_bytes = rustix::param::page_size();
        let area = MappedArea::map(page_bytes, AreaBacking::Anonymous).unwrap();
        area.words()[0]
            .store(u64::from_ne_bytes(*b"nodeward"), std::sync::atomic::Ordering::SeqCst);
        let (process, mut bytes) = (own(), [1; 8]);
        let mut reader = &process;
        assert_eq!((reader.read(area.address(), &mut bytes), &bytes), (8, b"nodeward"));
        for unmapped in [0, 0x1000, u64::MAX - 8, 1 << 63] {
            assert_eq!(reader.read(unmapped, &mut bytes), 0, "{unmapped:#x}");
        }
        assert!(!process.memory_is_gone());
    }

    /// Goal: exec leaves the held memory empty, and the new one can be held; after exit neither.
    #[test]
    fn exec_and_exit_are_noticed() {
        let mut child = Command::new("sh")
            .args(["-c", "read line; exec sleep 1000"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let before = ObservedProcess::open(Pid::new(child.id()).unwrap()).unwrap();
        assert!(!before.memory_is_gone());
        drop(child.stdin.take());
        wait_until("the shell called exec", || before.memory_is_gone());
        let after = before.after_exec().expect("sleep goes on");
        assert!(!after.memory_is_gone());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(after.memory_is_gone() && after.after_exec().is_none());
    }

    /// Goal: a kernel thread and a pid that is not in use are refused, each with its reason.
    #[test]
    fn what_has_no_memory_is_refused() {
        let unused = Pid::new(0x3f_ffff).unwrap();
        assert!(matches!(ObservedProcess::open(unused), Err(Error::Gone(_))));
        let kthreadd = Pid::new(2).unwrap();
        match std::fs::read_to_string("/proc/2/comm") {
            Ok(name) if name == "kthreadd\n" => {
                assert!(matches!(ObservedProcess::open(kthreadd), Err(Error::KernelThread(_))));
            }
            _ => eprintln!("skipped: no kernel thread is visible in this pid namespace"),
        }
    }
}

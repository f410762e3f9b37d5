//! The threads of a held process, by our numbers and by those of an enclosed pid namespace.

use std::fs;
use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::ProcessIdentity;

use crate::held_pid::HeldPid;
use crate::kernel_file;
use crate::procfs::{credentials, identity, parse_trimmed};

impl HeldPid {
    /// Returns the identity of the process and of the program that it runs.
    ///
    /// # Errors
    /// `Gone`, or if a file of it may not be read.
    pub fn identity(&self) -> Result<ProcessIdentity> {
        let identity = identity::read(Path::new("/"), self.pid());
        self.check_alive().and(identity)
    }

    /// Returns the threads that it has now: our number of each, and the one by which the namespace
    /// knows it that `levels` pid namespaces end with, ours among them. Cost: one file for each
    /// thread, none if `levels` is 1.
    ///
    /// # Errors
    /// `Gone`.
    pub fn threads(&self, levels: usize) -> Result<Vec<(u32, u32)>> {
        let folder = self.folder().join("task");
        let numbers = fs::read_dir(&folder).into_iter().flatten().flatten();
        let numbers =
            numbers.filter_map(|entry| parse_trimmed::<u32>(entry.file_name().as_encoded_bytes()));
        let shown = |tid: u32| match levels {
            1 => Some((tid, tid)),
            _ => {
                let path = folder.join(format!("{tid}/status"));
                let status = credentials::parse(&kernel_file::read(&path).ok()?, &path).ok()?;
                Some((tid, *status.pids.get(levels.checked_sub(1)?)?))
            }
        };
        let threads = numbers.filter_map(shown).collect();
        self.check_alive().map(|()| threads)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use nodeward_model::Pid;

    use super::*;
    use crate::own_credentials;
    use crate::test_wait::wait_for;

    /// Goal: our own threads are found by their numbers, which are the same in our namespace.
    #[test]
    fn our_threads_have_one_number() {
        let held = HeldPid::open(Pid::of_this_process()).unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let levels = own_credentials().unwrap().status.pids.len();
        for levels in [1, levels] {
            let threads = held.threads(levels).unwrap();
            assert!(threads.iter().any(|(ours, _)| *ours == own), "{threads:?}");
            assert!(threads.iter().all(|(ours, shown)| levels > 1 || ours == shown));
        }
        assert_eq!(held.identity().unwrap().pid, held.pid());
        assert!(held.threads(levels + 1).unwrap().is_empty(), "they are in no deeper one");
    }

    /// Goal: the first thread of a pid namespace is 1 there.
    #[test]
    fn threads_have_numbers_of_their_namespace() {
        let mut child = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "sleep", "60"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let first = wait_for("the namespace has a process, or cannot be made", || {
            let ended = child.try_wait().unwrap().is_some();
            let pid: Option<Pid> =
                fs::read_to_string(&children).ok().and_then(|text| text.trim().parse().ok());
            pid.map(Some).or(ended.then_some(None))
        });
        let Some(first) = first else {
            eprintln!("skipped: no pid namespace can be made here");
            return;
        };
        let held = HeldPid::open(first).unwrap();
        let levels = held.credentials().unwrap().status.pids.len();
        assert_eq!(held.threads(levels).unwrap(), [(first.number(), 1)]);
        // Not `unshare`, which may not have told its child yet to die with it.
        let raw = rustix::process::Pid::from_raw(first.number().cast_signed());
        rustix::process::kill_process(raw.unwrap(), rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        let is_gone = wait_for("it ended", || held.threads(levels).is_err().then_some(true));
        assert!(is_gone);
    }
}

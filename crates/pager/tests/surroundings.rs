//! Goal: whatever refuses userfaultfd, the probe finds a method that works, and the reason names
//! the cause and the one thing to do. Filters and user ids hold for a thread, so each test confines
//! its own; limits hold for a process, so that test starts another.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::process::Command;
use std::thread;

use nodeward_pager::{
    Backend, Error, Pager, PagerOptions, Shortfall, UffdCapabilities, VisibleFaults,
};
use rustix::process::{Gid, Uid};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

const UFFDIO_MOVE: u64 = 0xc028_aa05; // _IOWR(0xaa, 0x05, 40 bytes)
const UNPRIVILEGED_UID: u32 = 65_534;
const REFUSALS: [libc::c_int; 2] = [libc::EPERM, libc::ENOSYS];

/// Returns what a probe finds on a thread that `confine` restricts first.
fn capabilities_under(confine: impl FnOnce() + Send + 'static) -> UffdCapabilities {
    let probing = move || {
        confine();
        UffdCapabilities::probe().unwrap()
    };
    thread::spawn(probing).join().unwrap()
}

/// Makes system calls of the current thread fail, as container runtimes do.
fn refuse(rules: &[(i64, Vec<SeccompRule>)], errno: libc::c_int) {
    let machine = std::env::consts::ARCH.try_into().unwrap();
    let refusal = SeccompAction::Errno(errno.unsigned_abs());
    let rules: BTreeMap<_, _> = rules.iter().cloned().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    apply_filter(&program).unwrap();
}

fn refuse_userfaultfd(errno: libc::c_int) {
    refuse(&[(libc::SYS_userfaultfd, Vec::new())], errno);
}

/// A filter rule that hides UFFDIO_MOVE, as before Linux 6.8.
fn no_move() -> (i64, Vec<SeccompRule>) {
    let request = SeccompCmpArgLen::Dword;
    let is_move = SeccompCondition::new(1, request, SeccompCmpOp::Eq, UFFDIO_MOVE).unwrap();
    (libc::SYS_ioctl, vec![SeccompRule::new(vec![is_move]).unwrap()])
}

/// Gives up the privileges of the current thread, if it has any.
fn become_nobody() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (user, group) = (Uid::from_raw(UNPRIVILEGED_UID), Gid::from_raw(UNPRIVILEGED_UID));
    set_thread_res_gid(group, group, group).unwrap();
    set_thread_res_uid(user, user, user).unwrap();
}

fn device_opens() -> bool {
    File::options().read(true).write(true).open("/dev/userfaultfd").is_ok()
}

/// Returns the sysctl; `None` on a kernel without userfaultfd.
fn is_unprivileged_allowed() -> Option<bool> {
    let text = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").ok()?;
    Some(text.trim() == "1")
}

/// Returns whether there is a userfaultfd to refuse here.
fn has_userfaultfd() -> bool {
    let has = UffdCapabilities::probe().unwrap().faults != VisibleFaults::None;
    if !has {
        eprintln!("skipped: no userfaultfd here to begin with");
    }
    has
}

fn reason(capabilities: &UffdCapabilities, daring: bool) -> String {
    capabilities.shortfall(daring).as_ref().map(Shortfall::to_string).unwrap_or_default()
}

#[test]
fn a_filter_is_passed_by_the_device_or_blamed() {
    if !has_userfaultfd() {
        return;
    }
    for errno in REFUSALS {
        let found = capabilities_under(move || refuse_userfaultfd(errno));
        if device_opens() {
            assert_eq!(found.faults, VisibleFaults::All, "errno {errno}");
        } else {
            assert_eq!((found.faults, found.backend(true)), (VisibleFaults::None, Backend::Kernel));
            let reason = reason(&found, true);
            assert!(reason.contains("seccomp filter refuses userfaultfd"), "{reason}");
        }
    }
}

#[test]
fn a_filter_is_blamed_by_those_without_privilege() {
    if !has_userfaultfd() {
        return;
    }
    for errno in REFUSALS {
        let found = capabilities_under(move || {
            become_nobody();
            if device_opens() {
                refuse(&[(libc::SYS_openat, Vec::new())], libc::EACCES);
            }
            refuse_userfaultfd(errno);
        });
        assert_eq!((found.faults, found.backend(true)), (VisibleFaults::None, Backend::Kernel));
        let reason = reason(&found, true);
        assert!(reason.contains("seccomp filter refuses userfaultfd"), "errno {errno}: {reason}");
    }
}

#[test]
fn without_privilege_only_the_daring_take_the_fast_road() {
    let Some(false) = is_unprivileged_allowed() else {
        return eprintln!("skipped: userfaultfd is missing, or open to everybody");
    };
    let (found, device) = thread::spawn(|| {
        become_nobody();
        (UffdCapabilities::probe().unwrap(), device_opens())
    })
    .join()
    .unwrap();
    if device {
        return eprintln!("skipped: /dev/userfaultfd is open to everybody");
    }
    assert_eq!((found.faults, found.backend(false)), (VisibleFaults::UserCode, Backend::Kernel));
    let reason = reason(&found, false);
    assert!(reason.contains("faults inside system calls"), "{reason}");
    let cures = ["60-nodeward-userfaultfd.rules", "vm.unprivileged_userfaultfd", "/dev/userfault"];
    assert!(cures.iter().any(|cure| reason.contains(cure)), "{reason}");
    // The other features of the kernel do not depend on privileges.
    let privileged = UffdCapabilities::probe().unwrap();
    let gifts = |found: &UffdCapabilities| (found.can_move, found.can_remap, found.thread_id);
    assert_eq!(gifts(&found), gifts(&privileged));
    assert_eq!(found.backend(true) == Backend::Kernel, !found.can_move && !found.can_remap);
}

#[test]
fn an_older_kernel_remaps_or_leaves_it_to_the_kernel() {
    let here = UffdCapabilities::probe().unwrap();
    if here.faults == VisibleFaults::None || !here.can_remap {
        return eprintln!("skipped: nothing remaps here");
    }
    let remaps = capabilities_under(|| refuse(&[no_move()], libc::EINVAL));
    assert_eq!(remaps.backend(true), Backend::Remap);
    let reason_to_remap = reason(&remaps, true);
    assert!(reason_to_remap.contains("UFFDIO_MOVE does not work"), "{reason_to_remap}");
    assert!(reason_to_remap.contains("Linux 6.8"), "{reason_to_remap}");

    let neither =
        capabilities_under(|| refuse(&[no_move(), (libc::SYS_mremap, Vec::new())], libc::EINVAL));
    assert_eq!((neither.faults, neither.backend(true)), (here.faults, Backend::Kernel));
}

/// Set in the environment of the process that runs out of descriptors.
const CHILD: &str = "NODEWARD_TEST_WITHOUT_DESCRIPTORS";

#[test]
fn running_out_of_descriptors_is_told() {
    if std::env::var_os(CHILD).is_some() {
        return run_out_of_descriptors();
    }
    let us = std::env::current_exe().unwrap();
    let arguments = ["--exact", "running_out_of_descriptors_is_told"];
    let child = Command::new(us).args(arguments).env(CHILD, "1").output().unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(told.contains("1 passed"), "the test was not found: {told}");
}

fn run_out_of_descriptors() {
    let here = UffdCapabilities::probe().unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
    let error = UffdCapabilities::probe().unwrap_err();
    assert!(matches!(error, Error::NoDescriptor { .. }), "{error}");
    let expected = "userfaultfd needs a file descriptor and this process has none left; \
                    raise RLIMIT_NOFILE (ulimit -n) or close some";
    assert_eq!(error.to_string(), expected);
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(UffdCapabilities::probe().unwrap(), here, "nothing sticks");
    // However many are left, opening a pager works or reports that it was one too few.
    let mut told = 0;
    for current in 0.. {
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit }).unwrap();
        match Pager::open(&PagerOptions::default()) {
            Ok(_) => break,
            Err(Error::NoDescriptor { .. }) => told += 1,
            Err(error) => panic!("with {current} descriptors: {error}"),
        }
    }
    assert!(told > 0);
}

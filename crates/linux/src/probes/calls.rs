//! Checks that try a system call on this process.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_machine::Error;
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::check_result::{CheckResult, CheckState, Role};
use crate::confinement::{Confinement, PrivilegedAction};
use crate::frames::FrameMap;
use crate::hot;
use crate::own_process::{AreaBacking, MappedArea};
use crate::procfs::privileges::Capability;
use crate::{sys, thread_records};

/// Makes every call. The file of frame numbers is read below `root`.
pub fn check_calls(root: &Path, situation: &Confinement) -> Vec<CheckResult> {
    let page_bytes = rustix::param::page_size();
    let finding =
        |check, role, matters, state| CheckResult { check, role, relevance: matters, state };
    vec![
        finding(
            "move-pages",
            Role::Needed,
            "it is the call that moves pages",
            own_page(page_bytes, situation),
        ),
        finding("pidfd", Role::Needed, "a pid must not come to mean another process", pidfd()),
        finding(
            "other-users",
            Role::Helps,
            "processes of other users can be moved",
            other_users(situation),
        ),
        finding(
            "shared-pages",
            Role::Helps,
            "pages that several processes map can be moved",
            shared_pages(situation),
        ),
        finding(
            "frame-numbers",
            Role::Helps,
            "it is the fastest look at where pages are",
            frames(root, page_bytes, situation),
        ),
        finding("pagemap-scan", Role::Helps, "sparse address spaces are looked at quickly", scan()),
        finding(
            "populate",
            Role::Helps,
            "files in memory can be moved, and shared segments whole",
            populate(),
        ),
        finding(
            "damon",
            Role::Helps,
            "memory that a process accesses can be found",
            hot_source(hot::damon::check(root), "nobody uses it"),
        ),
        finding(
            "soft-dirty",
            Role::Helps,
            "pages that a process writes can be found",
            hot_source(hot::soft_dirty::check(root), "found a page that we wrote"),
        ),
        finding(
            "thread-starts",
            Role::Helps,
            "threads that members of a group start belong to the group",
            thread_starts(thread_records::probe()),
        ),
    ]
}

/// Returns whether pages can be mapped without an access. Regions touch their pages instead where
/// that is missing.
fn populate() -> CheckState {
    match sys::knows_populate() {
        true => CheckState::works("madvise maps pages without an access"),
        false => {
            let fix = "boot Linux 5.14 or later";
            CheckState::missing("this kernel does not have MADV_POPULATE_READ", fix)
        }
    }
}

/// Returns the state of a source of hot pages.
fn hot_source(answer: Result<(), hot::Unavailability>, seen: &str) -> CheckState {
    match answer {
        Ok(()) => CheckState::works(seen),
        Err(obstacle) => CheckState::missing(obstacle.reason, obstacle.fix),
    }
}

/// Returns the state of the records of threads.
fn thread_starts(answer: nodeward_machine::Result<()>) -> CheckState {
    match answer {
        Ok(()) => CheckState::works("perf tells which thread starts which"),
        Err(Error::Denied { remedy, .. }) => {
            CheckState::missing("perf may not tell which thread starts which", remedy)
        }
        Err(Error::Unsupported { reason, .. }) => {
            let fix = "put all threads of a process into a group, or each when it starts";
            CheckState::missing(reason, fix)
        }
        Err(error) => CheckState::unknown(error.to_string()),
    }
}

/// Moves a page of this process to the node where it is.
fn own_page(page_bytes: usize, situation: &Confinement) -> CheckState {
    match move_own_page(page_bytes) {
        Ok(node) if node >= 0 => CheckState::works(format!("moved a page of ours on node {node}")),
        Ok(code) => {
            CheckState::unknown(format!("the kernel says {} of a page of ours", errno_text(-code)))
        }
        Err(error) if is_refusal(&error) && situation.move_pages_filtered => CheckState::missing(
            "a seccomp filter refuses the call",
            situation.remedy(PrivilegedAction::Pages),
        ),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            let fix = "boot a kernel with CONFIG_NUMA and CONFIG_MIGRATION";
            CheckState::missing("this kernel does not have the call", fix)
        }
        Err(error) if is_refusal(&error) => {
            CheckState::missing(error.to_string(), situation.remedy(PrivilegedAction::Pages))
        }
        Err(error) => CheckState::unknown(format!("move_pages failed: {error}")),
    }
}

/// Returns the node of the page afterwards, or a negative error number.
fn move_own_page(page_bytes: usize) -> io::Result<i32> {
    let area = MappedArea::map(page_bytes, AreaBacking::Anonymous)?;
    area.words()[0].store(1, Relaxed);
    let mut status = [-libc::EAGAIN];
    sys::query_pages(0, &[area.address()], &mut status)?;
    let node = status[0];
    if node >= 0 {
        sys::move_pages(0, &[area.address()], &[node], &mut status, false)?;
    }
    Ok(status[0])
}

fn pidfd() -> CheckState {
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => CheckState::works("opened one for ourselves"),
        Err(rustix::io::Errno::NOSYS) => {
            CheckState::missing("this kernel does not have pidfd_open", "boot Linux 5.3 or later")
        }
        Err(error) => CheckState::missing(
            format!("pidfd_open failed: {error}"),
            "allow pidfd_open in the seccomp profile",
        ),
    }
}

/// Queries process 1, which belongs to root.
fn other_users(situation: &Confinement) -> CheckState {
    if std::process::id() == 1 {
        return CheckState::unknown("we are process 1 ourselves");
    }
    match sys::query_pages(1, &[], &mut []) {
        Ok(()) => CheckState::works("process 1 may be looked at"),
        Err(error) if is_refusal(&error) => {
            let why = "process 1 may not be looked at, so those of other users probably neither";
            CheckState::missing(why, situation.remedy(PrivilegedAction::Pages))
        }
        Err(error) => CheckState::unknown(format!("asking about process 1 failed: {error}")),
    }
}

/// The kernel checks the privilege before it reads the pages, so a call without pages tests it.
fn shared_pages(situation: &Confinement) -> CheckState {
    match sys::move_pages(0, &[], &[], &mut [], true) {
        Ok(_) => CheckState::works("CAP_SYS_NICE is honoured"),
        Err(error) if is_refusal(&error) => CheckState::missing(
            "they stay behind: CAP_SYS_NICE is not honoured",
            situation.remedy(PrivilegedAction::SharedPages),
        ),
        Err(error) => CheckState::unknown(format!("move_pages failed: {error}")),
    }
}

fn frames(root: &Path, page_bytes: usize, situation: &Confinement) -> CheckState {
    if FrameMap::open(root, page_bytes as u64).is_some() {
        return CheckState::works("pagemap shows them");
    }
    if situation.privileges.holds(Capability::SysAdmin) && !situation.user_namespace {
        return CheckState::missing(
            "the kernel does not show which node a frame belongs to",
            "boot a kernel with CONFIG_MEMORY_HOTPLUG",
        );
    }
    let why = "pagemap hides them, so the kernel is asked about each page";
    CheckState::missing(why, situation.remedy(PrivilegedAction::FrameNumbers))
}

fn scan() -> CheckState {
    let file = match File::open("/proc/self/pagemap") {
        Ok(file) => file,
        Err(error) => {
            return CheckState::unknown(format!("cannot open /proc/self/pagemap: {error}"));
        }
    };
    let answer = sys::pagemap_scan_without_size(&file);
    match answer.raw_os_error() {
        Some(libc::EINVAL) => CheckState::works("the kernel knows PAGEMAP_SCAN"),
        Some(libc::ENOTTY) => {
            CheckState::missing("the kernel does not know PAGEMAP_SCAN", "boot Linux 6.7 or later")
        }
        _ => CheckState::unknown(format!("PAGEMAP_SCAN failed: {answer}")),
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EACCES))
}

fn errno_text(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}

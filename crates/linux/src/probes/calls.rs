//! Checks that try a system call on this process.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::{Finding, Role, State};
use crate::advice::{Attempt, Situation};
use crate::frames::Frames;
use crate::hot;
use crate::own::{Area, Backing};
use crate::procfs::privileges::Capability;
use crate::sys;

/// Makes every call. The file of frame numbers is read below `root`.
pub fn examine(root: &Path, situation: &Situation) -> Vec<Finding> {
    let page_bytes = rustix::param::page_size();
    let finding = |check, role, matters, state| Finding { check, role, matters, state };
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
            everyones(situation),
        ),
        finding(
            "frame-numbers",
            Role::Helps,
            "it is the fastest look at where pages are",
            frames(root, page_bytes, situation),
        ),
        finding("pagemap-scan", Role::Helps, "sparse address spaces are looked at quickly", scan()),
        finding(
            "damon",
            Role::Helps,
            "memory that a process accesses can be found",
            source(hot::damon::examine(root), "nobody uses it"),
        ),
        finding(
            "soft-dirty",
            Role::Helps,
            "pages that a process writes can be found",
            source(hot::written::examine(root), "found a page that we wrote"),
        ),
    ]
}

/// Returns the state of a source of hot pages.
fn source(answer: Result<(), hot::Obstacle>, seen: &str) -> State {
    match answer {
        Ok(()) => State::works(seen),
        Err(obstacle) => State::missing(obstacle.why, obstacle.fix),
    }
}

/// Moves a page of this process to the node where it is.
fn own_page(page_bytes: usize, situation: &Situation) -> State {
    match move_own_page(page_bytes) {
        Ok(node) if node >= 0 => State::works(format!("moved a page of ours on node {node}")),
        Ok(code) => State::unknown(format!("the kernel says {} of a page of ours", os(-code))),
        Err(error) if is_refusal(&error) && situation.move_pages_filtered => {
            State::missing("a seccomp filter refuses the call", situation.need(Attempt::Pages))
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            let fix = "boot a kernel with CONFIG_NUMA and CONFIG_MIGRATION";
            State::missing("this kernel does not have the call", fix)
        }
        Err(error) if is_refusal(&error) => {
            State::missing(error.to_string(), situation.need(Attempt::Pages))
        }
        Err(error) => State::unknown(format!("move_pages failed: {error}")),
    }
}

/// Returns the node of the page afterwards, or a negative error number.
fn move_own_page(page_bytes: usize) -> io::Result<i32> {
    let area = Area::map(page_bytes, Backing::Anonymous)?;
    area.words()[0].store(1, Relaxed);
    let mut status = [-libc::EAGAIN];
    sys::query_pages(0, &[area.address()], &mut status)?;
    let node = status[0];
    if node >= 0 {
        sys::move_pages(0, &[area.address()], &[node], &mut status, false)?;
    }
    Ok(status[0])
}

fn pidfd() -> State {
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => State::works("opened one for ourselves"),
        Err(rustix::io::Errno::NOSYS) => {
            State::missing("this kernel does not have pidfd_open", "boot Linux 5.3 or later")
        }
        Err(error) => State::missing(
            format!("pidfd_open failed: {error}"),
            "allow pidfd_open in the seccomp profile",
        ),
    }
}

/// Queries process 1, which belongs to root.
fn other_users(situation: &Situation) -> State {
    if std::process::id() == 1 {
        return State::unknown("we are process 1 ourselves");
    }
    match sys::query_pages(1, &[], &mut []) {
        Ok(()) => State::works("process 1 may be looked at"),
        Err(error) if is_refusal(&error) => {
            let why = "process 1 may not be looked at, so others may neither";
            State::missing(why, situation.need(Attempt::Pages))
        }
        Err(error) => State::unknown(format!("asking about process 1 failed: {error}")),
    }
}

/// The kernel checks the privilege before it reads the pages, so a call without pages tests it.
fn everyones(situation: &Situation) -> State {
    match sys::move_pages(0, &[], &[], &mut [], true) {
        Ok(_) => State::works("CAP_SYS_NICE is honoured"),
        Err(error) if is_refusal(&error) => State::missing(
            "they stay behind: CAP_SYS_NICE is not honoured",
            situation.need(Attempt::EveryonesPages),
        ),
        Err(error) => State::unknown(format!("move_pages failed: {error}")),
    }
}

fn frames(root: &Path, page_bytes: usize, situation: &Situation) -> State {
    if Frames::open(root, page_bytes as u64).is_some() {
        return State::works("pagemap shows them");
    }
    if situation.status.holds(Capability::SysAdmin) && !situation.user_namespace {
        return State::missing(
            "the kernel does not show which node a frame belongs to",
            "boot a kernel with CONFIG_MEMORY_HOTPLUG",
        );
    }
    let why = "pagemap hides them, so the kernel is asked about each page";
    State::missing(why, situation.need(Attempt::FrameNumbers))
}

fn scan() -> State {
    let file = match File::open("/proc/self/pagemap") {
        Ok(file) => file,
        Err(error) => return State::unknown(format!("cannot open /proc/self/pagemap: {error}")),
    };
    let answer = sys::pagemap_scan_without_size(&file);
    match answer.raw_os_error() {
        Some(libc::EINVAL) => State::works("the kernel knows PAGEMAP_SCAN"),
        Some(libc::ENOTTY) => {
            State::missing("the kernel does not know PAGEMAP_SCAN", "boot Linux 6.7 or later")
        }
        _ => State::unknown(format!("PAGEMAP_SCAN failed: {answer}")),
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EACCES))
}

fn os(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}

//! Records of threads that start and end on this kernel.

use std::sync::mpsc;
use std::thread;

use nodeward_linux::Linux;
use nodeward_linux::interference::run_in_child;
use nodeward_linux::test_wait::wait_until;
use nodeward_machine::conformance::thread_records::{ALL, ThreadRecordFixture};
use nodeward_machine::{Machine as _, ThreadRecord};
use nodeward_model::Pid;

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

fn own_pid() -> Pid {
    Pid::new(std::process::id()).unwrap()
}

/// Lets the calling thread start a thread that starts another one, and waits for both.
fn start_chain() -> [u32; 2] {
    let one = || (own_tid(), thread::spawn(own_tid).join().unwrap());
    let (one, two) = thread::spawn(one).join().unwrap();
    [one, two]
}

/// Whether records can be opened here; says why not.
fn is_permitted() -> bool {
    let opened = Linux::open().open_thread_records();
    opened.inspect_err(|error| println!("skipped: {error}")).is_ok()
}

/// Goal: the kernel tells who starts which thread as the other machines do.
#[test]
fn this_kernel_conforms() {
    if !is_permitted() {
        return;
    }
    let machine = Linux::open();
    let fixture = ThreadRecordFixture {
        machine: &machine,
        pid: own_pid(),
        starter: own_tid(),
        start_chain: &start_chain,
    };
    for (name, body) in ALL {
        println!("body {name}");
        body(&fixture);
    }
}

/// Goal: threads that start each other from CPU to CPU, 200 in a row, are told in that order, also
/// while records are taken all the time.
#[test]
fn a_long_chain_is_told_in_its_order() {
    if !is_permitted() {
        return;
    }
    let mut records = Linux::open().open_thread_records().unwrap();
    let (tell, told) = mpsc::channel();
    start_rest(200, &tell);
    drop(tell);
    let (mut started, mut chain) = (Vec::new(), Vec::new());
    wait_until("all have run and are told", || {
        for record in records.take().records {
            match record {
                ThreadRecord::Started { pid, tid, starter } if pid == own_pid() => {
                    started.push((starter, tid));
                }
                _ => {}
            }
        }
        chain.extend(told.try_iter());
        let all = chain.len() == 200;
        all && chain.iter().all(|link| started.contains(link))
    });
    let links: Vec<_> = started.into_iter().filter(|link| chain.contains(link)).collect();
    assert_eq!(links, chain);
}

/// Starts a thread that tells by whom it was started, and starts the rest.
fn start_rest(count: u32, tell: &mpsc::Sender<(u32, u32)>) {
    if count > 0 {
        let (starter, tell) = (own_tid(), tell.clone());
        thread::spawn(move || {
            tell.send((starter, own_tid())).unwrap();
            start_rest(count - 1, &tell);
        });
    }
}

/// Goal: a child of fork(2) is no thread that was started, but its end is told.
#[test]
fn a_child_is_no_thread() {
    if !is_permitted() {
        return;
    }
    let mut records = Linux::open().open_thread_records().unwrap();
    run_in_child(|| 0).unwrap();
    let mut seen = Vec::new();
    let is_childs = |record: &ThreadRecord| match *record {
        ThreadRecord::Started { pid, tid, .. } => pid != own_pid() && tid == pid.number(),
        ThreadRecord::Ended { .. } => false,
    };
    wait_until("ends are told", || {
        seen.extend(records.take().records);
        seen.iter()
            .any(|record| matches!(record, ThreadRecord::Ended { pid, .. } if *pid != own_pid()))
    });
    assert!(!seen.iter().any(is_childs), "{seen:?}");
}

//! Changes of the address space that run while its pages are observed and moved.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea, fork_idle};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::args::Race;
use crate::memory::page_bytes;

const CHILD_LIFE: Duration = Duration::from_millis(5);
const GROWTH_INTERVAL: Duration = Duration::from_millis(10);

/// Makes one kind of change repeatedly until told to stop, at least once; returns how often.
pub fn run(race: Race, bytes: usize, most: usize, stop: &AtomicBool) -> io::Result<u64> {
    let mut grown = Vec::new();
    let lasting = MappedArea::map(bytes, AreaBacking::Anonymous)?;
    let mut rounds = 0;
    loop {
        match race {
            Race::Unmap => touch(&MappedArea::map(bytes, AreaBacking::Anonymous)?),
            Race::Discard => {
                touch(&lasting);
                lasting.advise(AreaAdvice::Discard)?;
            }
            Race::Grow => grow(&mut grown, bytes, most)?,
            Race::Fork => fork()?,
        }
        rounds += 1;
        if stop.load(Relaxed) {
            return Ok(rounds);
        }
    }
}

fn touch(area: &MappedArea) {
    let step = page_bytes() / 8;
    area.words().iter().step_by(step).for_each(|word| word.store(1, Relaxed));
}

fn grow(grown: &mut Vec<MappedArea>, bytes: usize, most: usize) -> io::Result<()> {
    if grown.len() * bytes >= most {
        grown.clear();
    }
    let area = MappedArea::map(bytes, AreaBacking::Anonymous)?;
    touch(&area);
    grown.push(area);
    std::thread::sleep(GROWTH_INTERVAL);
    Ok(())
}

fn fork() -> io::Result<()> {
    let child = fork_idle(60)?.number().cast_signed();
    std::thread::sleep(CHILD_LIFE);
    let child = Pid::from_raw(child);
    if let Some(child) = child {
        kill_process(child, Signal::KILL)?;
    }
    waitpid(child, WaitOptions::empty())?;
    Ok(())
}

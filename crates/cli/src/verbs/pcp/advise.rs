//! `nodeward pcp advise`.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_linux::page_lists::PageListState;
use nodeward_linux::procfs::page_lists;
use nodeward_machine::Machine as _;
use nodeward_policy::pcp::{FractionBounds, fraction_for};

use super::depths::DepthWatch;
use super::tune::fraction_bounds;
use crate::args::PcpAdviseArgs;
use crate::message::exit::Exit;
use crate::output::{pcp, print};
use crate::results::{CpuListUse, TuningAdvice};

/// The period of the tuner of 2023.
const PERIOD: Duration = Duration::from_secs(1);

/// Watches for a time, and advises.
pub fn run(args: &PcpAdviseArgs) -> Result<Exit> {
    let bounds = fraction_bounds(&args.bounds)?;
    let state = PageListState::read(Path::new("/"))?;
    let mut depths = DepthWatch::start(&state)?;
    depths.drop_capabilities()?;
    let advice = watch(&mut depths, &state, Duration::from_nanos(args.for_ns), bounds)?;
    let page_bytes = Linux::open().page_bytes();
    print(&match args.output.json {
        true => format!("{}\n", pcp::advice_json(&advice, page_bytes)),
        false => pcp::advice_text(&advice, page_bytes),
    })?;
    Ok(Exit::Done)
}

fn watch(
    depths: &mut DepthWatch,
    state: &PageListState,
    time: Duration,
    bounds: FractionBounds,
) -> Result<TuningAdvice> {
    let began = Instant::now();
    depths.end_period(&state.zones)?;
    let mut cpus: Vec<CpuListUse> = Vec::new();
    let mut missed_events = 0;
    let mut zones = Vec::new();
    while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        thread::sleep(left.min(PERIOD));
        zones = page_lists::zones(Path::new("/"))?;
        let found = depths.end_period(&zones)?;
        missed_events = found.missed_events;
        add_period(&mut cpus, found.cpus);
    }
    let demands: Vec<_> = cpus.iter().map(CpuListUse::demand).collect();
    let advised_fraction = fraction_for(&demands, bounds);
    let stranded = advised_fraction.map(|fraction| depths.stranded_pages(fraction, &zones));
    Ok(TuningAdvice {
        self_tuning: state.self_tuning,
        high_fraction: state.high_fraction,
        watched_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        cpus,
        advised_fraction,
        stranded_pages: stranded.unwrap_or(0),
        missed_events,
    })
}

/// Adds a period to what is known of each CPU. One that came meanwhile begins with it.
fn add_period(cpus: &mut Vec<CpuListUse>, period: Vec<CpuListUse>) {
    for now in period {
        match cpus.iter_mut().find(|known| known.cpu == now.cpu) {
            Some(known) => known.add(&now),
            None => cpus.push(now),
        }
    }
}

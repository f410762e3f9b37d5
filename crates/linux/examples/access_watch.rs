//! Shows what the source `registers` tells of running processes: `access_watch HZ SECONDS PID...`.
//!
//! An address that is in no mapping of its process is wrong; one that is in a mapping may be right.

use std::collections::BTreeMap;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use nodeward_linux::Linux;
use nodeward_machine::{AccessBatch, AccessSampling, AccessSourceKind, Machine};
use nodeward_model::{AccessKind, Mapping, Pid};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<u64> =
        std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [rate_hz, seconds, ref pids @ ..] = arguments[..] else {
        return Err("access_watch HZ SECONDS PID...".into());
    };
    let pid = |&number: &u64| Ok::<_, Box<dyn Error>>(Pid::new(u32::try_from(number)?)?);
    let mut pids = pids.iter().map(pid).collect::<Result<Vec<_>, _>>()?;
    pids.sort();
    let machine = Linux::open();
    let mut source = machine.open_access_source(AccessSourceKind::Registers)?;
    source.observe(&AccessSampling { pids, rate_hz: u32::try_from(rate_hz)? })?;
    let (mut all, start) = (WatchTally::default(), Instant::now());
    while start.elapsed() < Duration::from_secs(seconds) {
        thread::sleep(Duration::from_secs(1));
        all.add(&machine, &source.take()?);
    }
    all.print(start.elapsed().as_secs_f64());
    Ok(())
}

#[derive(Default)]
struct WatchTally {
    kinds: BTreeMap<AccessKind, u64>,
    mapped: u64,
    without_address: u64,
    lost: u64,
    threads_unseen: u64,
    cpu_ns: u64,
}

impl WatchTally {
    fn add(&mut self, machine: &dyn Machine, batch: &AccessBatch) {
        let mut mappings: BTreeMap<Pid, Vec<Mapping>> = BTreeMap::new();
        for sample in &batch.samples {
            *self.kinds.entry(sample.kind).or_default() += 1;
            let of_process = mappings.entry(sample.pid).or_insert_with(|| {
                machine.open_process(sample.pid).and_then(|one| one.mappings()).unwrap_or_default()
            });
            let address = sample.access.address;
            let is_inside = |one: &Mapping| (one.range.start..one.range.end).contains(&address);
            self.mapped += u64::from(of_process.iter().any(is_inside));
        }
        self.without_address += batch.without_address;
        self.lost += batch.lost;
        self.threads_unseen = batch.threads_unseen;
        self.cpu_ns += batch.cpu_ns;
    }

    fn print(&self, seconds: f64) {
        let named: u64 = self.kinds.values().sum();
        let all = named + self.without_address;
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        println!("{all} samples, {:.1} % with an address", percent(named, all));
        println!(
            "{:.1} % of the addresses are mapped; {:?}",
            percent(self.mapped, named),
            self.kinds
        );
        println!("{} lost, {} threads not observed", self.lost, self.threads_unseen);
        let cpu = self.cpu_ns as f64;
        let (part, each) = (cpu / 1e7 / seconds, cpu / 1e3 / all.max(1) as f64);
        println!("sampler: {part:.2} % of a CPU, {each:.1} us a sample");
    }
}

//! Load of memory and links, and the latency of a miss under it.
//!
//! Threads that go through memory register their rate while they do. Each pipe (a node's memory, a
//! link, a complex) is updated every [`EPOCH_NS`]. The fuller it is, the longer a miss takes there,
//! up to the point where no more goes through than fits.

use nodeward_scenario::MachineSpec;

use super::machine_layout::MachineLayout;

/// Interval between updates of pipes, in nanoseconds.
pub const EPOCH_NS: u64 = 1_000_000;

/// Unit of stretch: the latency factor of a machine without load.
const NO_SLOWDOWN: u64 = 1 << 16;
/// Maximum latency factor.
const SLOWDOWN_MAX: u64 = 200 * NO_SLOWDOWN;
/// A line occupies its place in the queue for 1/16 of the time of a miss.
const SERVICE_PARTS: u64 = 16;
/// The load of a full pipe, in millionths.
const FULL_LOAD_PPM: u64 = 1_000_000;
/// Fraction (1/6) of the surplus load that an epoch corrects. Turns last some epochs, so more than
/// a fourth would oscillate.
const STEP_PART: u64 = 6;
/// Maximum surplus that counts.
const SURPLUS_MAX: u64 = 3 * FULL_LOAD_PPM;

/// Maximum bytes in flight counted for one flow, so that the sum of 4096 flows does not overflow.
const OUTSTANDING_MAX: u64 = 1 << 48;

/// The complex of a flow that belongs to none: a copy engine.
pub const NO_COMPLEX: usize = usize::MAX;

/// A rate through the pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The complex of the CPU, or [`NO_COMPLEX`].
    pub complex: usize,
    /// The index of the CPU's node.
    pub from: usize,
    /// The index of the memory's node.
    pub to: usize,
    /// Bytes per microsecond.
    pub rate: u64,
}

/// A registered flow. It lasts until [`Traffic::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveFlow {
    flow: Flow,
    /// Its data in flight on its complex, in thousandths of a byte: rate times latency.
    outstanding: u64,
}

/// All pipes.
#[derive(Clone, Debug)]
pub struct Traffic {
    nodes: usize,
    /// Pipes of nodes, then links by both their nodes, then complexes, then the limits of complexes
    /// on data in flight, if there are such limits.
    queues: Vec<BandwidthQueue>,
    /// The index of the first of these limits.
    first_miss_tracker: Option<usize>,
    /// The pipes that are not idle. There is a link for each pair of nodes, but few are in use.
    in_use: Vec<usize>,
    /// Number of pipe updates so far.
    updates: u64,
    /// Latency of a miss between each pair of nodes on an idle machine, in picoseconds.
    idle_ps: Vec<u64>,
}

impl Traffic {
    /// Creates the pipes of a machine, without flows.
    pub fn new(machine: &MachineSpec, layout: &MachineLayout) -> Self {
        let count = machine.nodes.len();
        let pairs = || (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let complex = machine.params.complex_bandwidth_bytes_per_s;
        let nodes = (0..count).map(|node| machine.bandwidth_bytes_per_s(node));
        let links = pairs().map(|(from, to)| machine.link_bytes_per_s(from, to));
        let complexes = (0..layout.complex_count).map(|_| complex);
        let mut pipes: Vec<_> =
            nodes.chain(links).chain(complexes).map(BandwidthQueue::new).collect();
        let bytes = machine.params.complex_misses.saturating_mul(machine.params.line_bytes);
        let trackers = (bytes > 0).then_some(pipes.len());
        if bytes > 0 {
            let tracker =
                BandwidthQueue { capacity: bytes.saturating_mul(1000), ..BandwidthQueue::new(0) };
            pipes.extend((0..layout.complex_count).map(|_| tracker.clone()));
        }
        Self {
            nodes: count,
            queues: pipes,
            first_miss_tracker: trackers,
            in_use: Vec::new(),
            updates: 0,
            idle_ps: pairs()
                .map(|(from, to)| machine.latency_ns(from, to).saturating_mul(1000))
                .collect(),
        }
    }

    /// Returns the present latency of a miss, in picoseconds.
    pub fn latency_ps(&self, complex: usize, from: usize, to: usize) -> u64 {
        let waits =
            self.miss_tracker(complex).map_or(0, |index| self.queueing_delay_ps(index, from));
        self.latency_before_tracker_ps(complex, from, to).saturating_add(waits)
    }

    /// Returns the same without the wait for a slot among the complex's outstanding misses.
    ///
    /// An access from far away waits in the same queues as a near one, and no longer; only the way
    /// itself takes longer. Queueing delay is therefore scaled by the latency of the node's own
    /// memory.
    fn latency_before_tracker_ps(&self, complex: usize, from: usize, to: usize) -> u64 {
        let [node, link, cores] = self.path(complex, from, to);
        let wait =
            |pipe: Option<usize>, of| pipe.map_or(0, |pipe| self.queueing_delay_ps(pipe, of));
        let waits = wait(node, to).saturating_add(wait(link, to));
        let idle = self.idle_ps[from * self.nodes + to];
        idle.saturating_add(waits).saturating_add(wait(cores, from))
    }

    /// Returns the delay that a pipe's queue adds to a miss, scaled by the latency of this node's
    /// own memory.
    fn queueing_delay_ps(&self, pipe: usize, of: usize) -> u64 {
        let idle = u128::from(self.idle_ps[of * self.nodes + of]);
        let stretch = u128::from(self.queues[pipe].slowdown - NO_SLOWDOWN);
        u64::try_from(idle * stretch / u128::from(NO_SLOWDOWN)).unwrap_or(u64::MAX)
    }

    fn miss_tracker(&self, complex: usize) -> Option<usize> {
        self.first_miss_tracker.filter(|_| complex != NO_COMPLEX).map(|first| first + complex)
    }

    /// Returns the present latency of a miss relative to one to the own node of an idle machine, as
    /// a fraction.
    pub fn slowdown_ratio(&self, complex: usize, from: usize, to: usize) -> (u64, u64) {
        let idle = self.idle_ps[from * self.nodes + from];
        (self.latency_ps(complex, from, to).max(1), idle.max(1))
    }

    /// Registers a flow.
    pub fn begin(&mut self, flow: Flow) -> ActiveFlow {
        let latency_ps =
            u128::from(self.latency_before_tracker_ps(flow.complex, flow.from, flow.to));
        let under_way = u128::from(flow.rate) * latency_ps / 1000;
        let under_way = u64::try_from(under_way).unwrap_or(u64::MAX).min(OUTSTANDING_MAX);
        let carried = ActiveFlow { flow, outstanding: under_way };
        for (queue, demand) in self.demands(&carried) {
            let Some(index) = queue else { continue };
            let pipe = &mut self.queues[index];
            pipe.demand += demand;
            if !std::mem::replace(&mut pipe.in_use, true) {
                self.in_use.push(index);
            }
        }
        carried
    }

    /// Removes a flow.
    pub fn end(&mut self, carried: ActiveFlow) {
        for (queue, demand) in self.demands(&carried) {
            let Some(index) = queue else { continue };
            self.queues[index].demand -= demand;
        }
    }

    /// Returns the queues that a flow goes through, with its demand on each.
    fn demands(&self, carried: &ActiveFlow) -> [(Option<usize>, u64); 4] {
        let ActiveFlow { flow, outstanding } = *carried;
        let [node, link, cores] = self.path(flow.complex, flow.from, flow.to);
        let tracker = self.miss_tracker(flow.complex);
        [(node, flow.rate), (link, flow.rate), (cores, flow.rate), (tracker, outstanding)]
    }

    /// Returns the memory, the link and the complex that a flow goes through.
    fn path(&self, complex: usize, from: usize, to: usize) -> [Option<usize>; 3] {
        let link = (from != to).then_some(self.nodes + from * self.nodes + to);
        let complex = (complex != NO_COMPLEX).then(|| self.nodes * (self.nodes + 1) + complex);
        [Some(to), link, complex]
    }

    /// Updates all pipes that are in use.
    pub fn update(&mut self) {
        let Self { queues: pipes, in_use, updates: looks, .. } = self;
        *looks += in_use.len() as u64;
        in_use.retain(|&index| {
            pipes[index].update();
            pipes[index].in_use = !pipes[index].is_idle();
            pipes[index].in_use
        });
    }

    /// Returns the number of pipe updates.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Returns the present transfer rate of a node's memory in bytes per microsecond, at most its
    /// bandwidth.
    pub fn delivered_bytes_per_us(&self, node: usize) -> u64 {
        self.queues[node].delivered_bytes_per_us()
    }

    /// Returns the bytes that a node's memory has delivered, by the demand at the end of each
    /// epoch.
    pub fn carried_bytes(&self, node: usize) -> u64 {
        self.queues[node].carried_bytes
    }
}

/// A resource with limited bandwidth.
#[derive(Clone, Debug)]
struct BandwidthQueue {
    /// Bandwidth, in bytes per microsecond.
    capacity: u64,
    /// Requested rate, in bytes per microsecond.
    demand: u64,
    /// Latency factor of a miss, in units of 1/[`NO_SLOWDOWN`].
    slowdown: u64,
    /// Whether it is in the list of pipes to update.
    in_use: bool,
    /// Bytes transferred in all epochs so far.
    carried_bytes: u64,
}

impl BandwidthQueue {
    fn new(bytes_per_s: u64) -> Self {
        let capacity = (bytes_per_s / 1_000_000).max(1);
        Self { capacity, demand: 0, slowdown: NO_SLOWDOWN, in_use: false, carried_bytes: 0 }
    }

    /// Returns the present transfer rate in bytes per microsecond, at most the bandwidth.
    fn delivered_bytes_per_us(&self) -> u64 {
        self.demand.min(self.capacity)
    }

    /// Returns the latency factor at a load by queueing theory: `1 + rho^2 / (1 - rho) / 16`, at
    /// most [`SLOWDOWN_MAX`].
    fn slowdown_at_load(load: u64) -> u64 {
        if load >= FULL_LOAD_PPM {
            return SLOWDOWN_MAX;
        }
        let queue = u128::from(NO_SLOWDOWN * load) * u128::from(load)
            / u128::from(FULL_LOAD_PPM * (FULL_LOAD_PPM - load) * SERVICE_PARTS);
        (NO_SLOWDOWN + queue as u64).min(SLOWDOWN_MAX)
    }

    /// Returns the load that causes a latency factor: the inverse of the curve. With `y` sixteen
    /// times the queue, `rho^2 + y rho - y = 0`.
    fn load_at_slowdown(stretch: u64) -> u64 {
        let y = (stretch - NO_SLOWDOWN) * SERVICE_PARTS * FULL_LOAD_PPM / NO_SLOWDOWN;
        ((y * y + 4 * FULL_LOAD_PPM * y).isqrt() - y) / 2
    }

    fn is_idle(&self) -> bool {
        self.demand == 0 && self.slowdown == NO_SLOWDOWN
    }

    /// Moves the latency factor towards the curve. The demand responds to it with delay, so each
    /// step corrects only a fraction of the surplus or missing load, and never goes beyond the
    /// curve.
    fn update(&mut self) {
        if self.is_idle() {
            return;
        }
        self.carried_bytes += self.delivered_bytes_per_us() * (EPOCH_NS / 1000);
        let load = u128::from(self.demand) * u128::from(FULL_LOAD_PPM) / u128::from(self.capacity);
        let load = u64::try_from(load).unwrap_or(u64::MAX);
        let (aim, fits) = (Self::slowdown_at_load(load), Self::load_at_slowdown(self.slowdown));
        let surplus = load.abs_diff(fits).min(SURPLUS_MAX);
        let step = self.slowdown * surplus / FULL_LOAD_PPM / STEP_PART + 1;
        self.slowdown = match load > fits {
            true => (self.slowdown + step).min(aim.max(self.slowdown)),
            false => self.slowdown.saturating_sub(step).max(aim.min(self.slowdown)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the load, in thousandths, of a pipe of 100 GB/s in each of `epochs` milliseconds.
    /// Each thread requests a line of 85 B every 1 + 9 ns on an idle machine, in turns of 3 ms that
    /// begin together or not.
    fn loads(threads: u64, together: bool, epochs: u64) -> Vec<u64> {
        let mut pipe = BandwidthQueue::new(100_000_000_000);
        let mut rates = vec![0; threads as usize];
        let epoch = |now: u64| {
            for (thread, rate) in rates.iter_mut().enumerate() {
                let phase = if together { 0 } else { thread as u64 % 3 };
                if now % 3 == phase {
                    pipe.demand -= *rate;
                    *rate = 85_000_000 / (1000 + 9000 * pipe.slowdown / NO_SLOWDOWN);
                    pipe.demand += *rate;
                }
            }
            pipe.update();
            pipe.demand * 1000 / pipe.capacity
        };
        (0..epochs).map(epoch).collect()
    }

    /// Goal: whatever number of threads requests more than fits, after 100 ms they get what fits,
    /// within 3 %, and it varies by no more than 1 %.
    #[test]
    fn load_settles_at_what_fits() {
        for threads in [32, 64, 256, 1024] {
            for together in [false, true] {
                let late = loads(threads, together, 300).split_off(100);
                let (least, most) = (late.iter().min().unwrap(), late.iter().max().unwrap());
                assert!(*least >= 960 && *most <= 1010, "{threads}: {least} to {most}");
                assert!(most - least <= 10, "{threads}: {least} to {most}");
            }
        }
    }

    /// Goal: few threads are not slowed down.
    #[test]
    fn little_load_costs_nothing() {
        // 2 * 8.5 = 17 GB/s of 100: 0.17^2 / 0.83 / 16 = 0.2 % of a wait of nine tenths.
        let load = *loads(2, false, 100).last().unwrap();
        assert!((168..=170).contains(&load), "{load}");
    }

    /// Goal: the two curves are each other's inverse, as far as a stretch can be told from none.
    #[test]
    fn load_and_stretch_fit() {
        for load in (50_000..990_000).step_by(7000) {
            assert!(
                BandwidthQueue::load_at_slowdown(BandwidthQueue::slowdown_at_load(load))
                    .abs_diff(load)
                    < 5_000,
                "{load}"
            );
        }
    }
}

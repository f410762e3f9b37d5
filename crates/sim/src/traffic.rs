//! What memory and links carry, and how long a miss takes for it.
//!
//! Threads that go through memory tell their rate while they do. Once in an [`EPOCH_NS`] each pipe
//! (a node's memory, a link, a complex) is looked at: a miss takes longer there the fuller it is,
//! and so much longer that no more goes through than fits.

use nodeward_scenario::Machine;

use crate::layout::Layout;

/// How often pipes are looked at.
pub const EPOCH_NS: u64 = 1_000_000;

/// How long a miss takes on a machine without load is a stretch of so much.
const EVEN: u64 = 1 << 16;
/// Nothing takes longer than this many times.
const STRETCH_MAX: u64 = 200 * EVEN;
/// A line is so small a part of the time of a miss that it keeps its place in the queue busy.
const PLACES: u64 = 16;
/// A full pipe, in millionths.
const FULL: u64 = 1_000_000;
/// How much of the surplus of load the stretch takes up in an epoch: turns last some epochs, so
/// more than a fourth would swing.
const STEP_PART: u64 = 6;
/// The surplus that counts at most.
const SURPLUS_MAX: u64 = 3 * FULL;

/// One thing that bytes go through.
#[derive(Clone, Debug)]
struct Pipe {
    /// Bytes per microsecond that fit.
    capacity: u64,
    /// Bytes per microsecond that are asked for now.
    demand: u64,
    /// How much longer a miss takes here, in parts of [`EVEN`].
    stretch: u64,
    /// Whether it is among those that are looked at.
    looked_at: bool,
    /// Bytes that went through in all epochs so far.
    carried: u64,
}

impl Pipe {
    fn of(bytes_per_s: u64) -> Self {
        let capacity = (bytes_per_s / 1_000_000).max(1);
        Self { capacity, demand: 0, stretch: EVEN, looked_at: false, carried: 0 }
    }

    /// What goes through now, in bytes per microsecond: no more than fits.
    fn delivered(&self) -> u64 {
        self.demand.min(self.capacity)
    }

    /// What queueing theory has for a miss at this load: `1 + rho^2 / (1 - rho) / 16`, at most
    /// [`STRETCH_MAX`].
    fn curve(load: u64) -> u64 {
        if load >= FULL {
            return STRETCH_MAX;
        }
        let queue =
            u128::from(EVEN * load) * u128::from(load) / u128::from(FULL * (FULL - load) * PLACES);
        (EVEN + queue as u64).min(STRETCH_MAX)
    }

    /// The load that stretches a miss so much: the curve the other way round. With `y` sixteen
    /// times the queue, `rho^2 + y rho - y = 0`.
    fn load_of(stretch: u64) -> u64 {
        let y = (stretch - EVEN) * PLACES * FULL / EVEN;
        ((y * y + 4 * FULL * y).isqrt() - y) / 2
    }

    fn is_idle(&self) -> bool {
        self.demand == 0 && self.stretch == EVEN
    }

    /// Moves the stretch towards the curve. The demand answers to it, and late; so it moves by a
    /// part of what load there is too much or too little, and never beyond the curve.
    fn look(&mut self) {
        if self.is_idle() {
            return;
        }
        self.carried += self.delivered() * (EPOCH_NS / 1000);
        let load = u128::from(self.demand) * u128::from(FULL) / u128::from(self.capacity);
        let load = u64::try_from(load).unwrap_or(u64::MAX);
        let (aim, fits) = (Self::curve(load), Self::load_of(self.stretch));
        let surplus = load.abs_diff(fits).min(SURPLUS_MAX);
        let step = self.stretch * surplus / FULL / STEP_PART + 1;
        self.stretch = match load > fits {
            true => (self.stretch + step).min(aim.max(self.stretch)),
            false => self.stretch.saturating_sub(step).max(aim.min(self.stretch)),
        };
    }
}

/// What one flow has under way counts up to this: the sum of 4096 of them fits.
const UNDER_WAY_MAX: u64 = 1 << 48;

/// The complex of who belongs to none: an engine that copies.
pub const NO_COMPLEX: usize = usize::MAX;

/// A rate that somebody has through the pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Whose complex, or [`NO_COMPLEX`].
    pub complex: usize,
    /// From the CPUs of this node.
    pub from: usize,
    /// To the memory of this one.
    pub to: usize,
    /// Bytes per microsecond.
    pub rate: u64,
}

/// A flow that goes on, until it is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    flow: Flow,
    /// What it has under way on its complex, in thousandths of a byte: rate times latency.
    under_way: u64,
}

/// All pipes.
#[derive(Clone, Debug)]
pub struct Traffic {
    nodes: usize,
    /// Of nodes, then links by both their nodes, then complexes; then what complexes can have under
    /// way, if that is bounded.
    pipes: Vec<Pipe>,
    /// The first of these last ones.
    trackers: Option<usize>,
    /// The pipes that are not idle: links are as many as pairs of nodes, but few are in use.
    in_use: Vec<usize>,
    /// Pipes that were looked at so far.
    looks: u64,
    /// Picoseconds of a miss from a node's CPUs to a node's memory, on an idle machine.
    idle_ps: Vec<u64>,
}

impl Traffic {
    /// Without any.
    pub fn new(machine: &Machine, layout: &Layout) -> Self {
        let count = machine.nodes.len();
        let pairs = || (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let complex = machine.params.complex_bandwidth_bytes_per_s;
        let nodes = (0..count).map(|node| machine.bandwidth_bytes_per_s(node));
        let links = pairs().map(|(from, to)| machine.link_bytes_per_s(from, to));
        let complexes = (0..layout.complexes).map(|_| complex);
        let mut pipes: Vec<_> = nodes.chain(links).chain(complexes).map(Pipe::of).collect();
        let bytes = machine.params.complex_misses.saturating_mul(machine.params.line_bytes);
        let trackers = (bytes > 0).then_some(pipes.len());
        if bytes > 0 {
            let tracker = Pipe { capacity: bytes.saturating_mul(1000), ..Pipe::of(0) };
            pipes.extend((0..layout.complexes).map(|_| tracker.clone()));
        }
        Self {
            nodes: count,
            pipes,
            trackers,
            in_use: Vec::new(),
            looks: 0,
            idle_ps: pairs()
                .map(|(from, to)| machine.latency_ns(from, to).saturating_mul(1000))
                .collect(),
        }
    }

    /// How long a miss takes now, in picoseconds.
    pub fn latency_ps(&self, complex: usize, from: usize, to: usize) -> u64 {
        let waits = self.tracker(complex).map_or(0, |index| self.wait_ps(index, from));
        self.under_way_ps(complex, from, to).saturating_add(waits)
    }

    /// The same without the wait for a place among the misses that the complex has under way.
    ///
    /// Who is far away waits in the same queues as who is near, and no longer: only the way itself
    /// takes longer. So queues count by the latency of the node's own memory.
    fn under_way_ps(&self, complex: usize, from: usize, to: usize) -> u64 {
        let [node, link, cores] = self.way(complex, from, to);
        let wait = |pipe: Option<usize>, of| pipe.map_or(0, |pipe| self.wait_ps(pipe, of));
        let waits = wait(node, to).saturating_add(wait(link, to));
        let idle = self.idle_ps[from * self.nodes + to];
        idle.saturating_add(waits).saturating_add(wait(cores, from))
    }

    /// What a pipe's queue adds to a miss, by the latency of this node's own memory.
    fn wait_ps(&self, pipe: usize, of: usize) -> u64 {
        let idle = u128::from(self.idle_ps[of * self.nodes + of]);
        let stretch = u128::from(self.pipes[pipe].stretch - EVEN);
        u64::try_from(idle * stretch / u128::from(EVEN)).unwrap_or(u64::MAX)
    }

    fn tracker(&self, complex: usize) -> Option<usize> {
        self.trackers.filter(|_| complex != NO_COMPLEX).map(|first| first + complex)
    }

    /// How much longer a miss takes now than one to the own node of an idle machine, as a fraction.
    pub fn slowness(&self, complex: usize, from: usize, to: usize) -> (u64, u64) {
        let idle = self.idle_ps[from * self.nodes + from];
        (self.latency_ps(complex, from, to).max(1), idle.max(1))
    }

    /// Somebody begins.
    pub fn begin(&mut self, flow: Flow) -> Carried {
        let latency_ps = u128::from(self.under_way_ps(flow.complex, flow.from, flow.to));
        let under_way = u128::from(flow.rate) * latency_ps / 1000;
        let under_way = u64::try_from(under_way).unwrap_or(u64::MAX).min(UNDER_WAY_MAX);
        let carried = Carried { flow, under_way };
        for (index, demand) in self.demands(&carried).into_iter().flatten() {
            let pipe = &mut self.pipes[index];
            pipe.demand += demand;
            if !std::mem::replace(&mut pipe.looked_at, true) {
                self.in_use.push(index);
            }
        }
        carried
    }

    /// And ends.
    pub fn end(&mut self, carried: Carried) {
        for (index, demand) in self.demands(&carried).into_iter().flatten() {
            self.pipes[index].demand -= demand;
        }
    }

    /// The pipes that a flow goes through, and what it asks of each.
    fn demands(&self, carried: &Carried) -> [Option<(usize, u64)>; 4] {
        let Carried { flow, under_way } = *carried;
        let rate = |pipe: Option<usize>| pipe.map(|index| (index, flow.rate));
        let [node, link, cores] = self.way(flow.complex, flow.from, flow.to).map(rate);
        [node, link, cores, self.tracker(flow.complex).map(|index| (index, under_way))]
    }

    /// The memory, the link and the complex that a flow goes through.
    fn way(&self, complex: usize, from: usize, to: usize) -> [Option<usize>; 3] {
        let link = (from != to).then_some(self.nodes + from * self.nodes + to);
        let complex = (complex != NO_COMPLEX).then(|| self.nodes * (self.nodes + 1) + complex);
        [Some(to), link, complex]
    }

    /// Looks at all pipes that are in use.
    pub fn look(&mut self) {
        let Self { pipes, in_use, looks, .. } = self;
        *looks += in_use.len() as u64;
        in_use.retain(|&index| {
            pipes[index].look();
            pipes[index].looked_at = !pipes[index].is_idle();
            pipes[index].looked_at
        });
    }

    /// How often a pipe was looked at.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// What a node's memory delivers now, in bytes per microsecond: no more than fits.
    pub fn delivered(&self, node: usize) -> u64 {
        self.pipes[node].delivered()
    }

    /// Bytes that a node's memory has delivered, by what was asked of it at the end of each epoch.
    pub fn carried_bytes(&self, node: usize) -> u64 {
        self.pipes[node].carried
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load, in thousandths, of a pipe of 100 GB/s in each of so many milliseconds: threads
    /// that ask for a line of 85 B in each 1 + 9 ns on an idle machine, in turns of 3 ms that begin
    /// together or not.
    fn loads(threads: u64, together: bool, epochs: u64) -> Vec<u64> {
        let mut pipe = Pipe::of(100_000_000_000);
        let mut rates = vec![0; threads as usize];
        let epoch = |now: u64| {
            for (thread, rate) in rates.iter_mut().enumerate() {
                let phase = if together { 0 } else { thread as u64 % 3 };
                if now % 3 == phase {
                    pipe.demand -= *rate;
                    *rate = 85_000_000 / (1000 + 9000 * pipe.stretch / EVEN);
                    pipe.demand += *rate;
                }
            }
            pipe.look();
            pipe.demand * 1000 / pipe.capacity
        };
        (0..epochs).map(epoch).collect()
    }

    /// Goal: whatever number of threads asks for more than fits, after 100 ms they get what fits,
    /// within 3 %, and that does not swing by more than 1 %.
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
            assert!(Pipe::load_of(Pipe::curve(load)).abs_diff(load) < 5_000, "{load}");
        }
    }
}

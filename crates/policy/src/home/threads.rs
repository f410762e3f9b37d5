//! Which threads are brought home now.
//!
//! All that are away would be, as exchanging threads between two nodes leaves both as busy as
//! they were. What counts there is what threads want: what they get is another where others are
//! beside them. Where a node would then have more than its CPUs, or more than its share if all are
//! busy, and more than it has now, the lightest stay away: nothing waits for its home while a CPU
//! elsewhere is idle.

use super::books::{CPU_PPM, ease};
use super::ground::{Ground, Place, wanted_ppm};
use super::plan::Nudge;
use super::reason::Reason;
use super::rules::Rules;
use super::seat::Seat;
use super::snapshot::Thread;
use super::view::View;

/// What is done about the threads of one entity.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathering {
    /// Threads with load that are not where they belong.
    pub(super) away: u32,
    /// Those that are brought there.
    pub(super) nudged: u32,
    /// Why others are not.
    pub(super) reason: Option<Reason>,
    /// Load by node when that is done.
    pub(super) after: Vec<u64>,
}

/// A thread that is away from home.
struct Stray<'a> {
    index: usize,
    thread: &'a Thread,
    from: Option<Place>,
    to: Place,
    demand: u64,
}

/// What nodes would have to do, and may.
struct Ways<'a> {
    ground: &'a Ground,
    /// What threads there want, by node.
    load: Vec<u64>,
    limit: Vec<u64>,
    /// The same by affinity.
    narrow: Vec<Vec<u64>>,
    /// That before anybody is brought anywhere.
    narrow_before: Vec<Vec<u64>>,
    level_ppm: u64,
    /// Threads that want as much differ by this at most, as it is measured.
    noise_ppm: u64,
}

/// The threads to bring home, and what comes of it for each entity.
pub(super) fn gather(
    ground: &Ground,
    rules: &Rules,
    views: &[View],
    seats: &[Option<Seat>],
) -> (Vec<Nudge>, Vec<Gathering>) {
    let mut ways = Ways::new(ground, rules, views);
    let mut gatherings: Vec<Gathering> = views
        .iter()
        .map(|view| Gathering { after: view.ran.clone(), ..Gathering::default() })
        .collect();
    let mut strays = Vec::new();
    for (index, (view, seat)) in views.iter().zip(seats).enumerate() {
        let Some(seat) = seat else { continue };
        find_strays(index, view, seat, rules, &mut ways, &mut gatherings[index], &mut strays);
    }
    ways.keep_away(&mut strays, &mut gatherings);
    let nudges = strays.iter().map(|stray| nudge(stray, views, ground, &mut gatherings)).collect();
    (nudges, gatherings)
}

/// Notes the threads of an entity that are away from home and may go there, as if they were there.
fn find_strays<'a>(
    index: usize,
    view: &View<'a>,
    seat: &Seat,
    rules: &Rules,
    ways: &mut Ways,
    gathering: &mut Gathering,
    strays: &mut Vec<Stray<'a>>,
) {
    for thread in &view.entity.threads {
        let (demand, from) = (ways.ground.demand_ppm(thread), ways.ground.place(thread.node));
        let near = thread.near.and_then(|near| ways.ground.place(near));
        let belongs = |&place: &Place| match near.filter(|near| seat.threads().contains(near)) {
            Some(near) => place == near,
            None => seat.threads().contains(&place),
        };
        let at_home = from.as_ref().is_some_and(belongs);
        if at_home || demand < u64::from(rules.nudge_ppm_min) {
            continue;
        }
        gathering.away += 1;
        let within_reach = seat.threads().iter().copied().filter(belongs);
        let within_reach = within_reach.filter(|&to| ways.reaches(thread, to));
        match within_reach.min_by_key(|&to| (ways.busy(to), to)) {
            None => gathering.reason = Some(Reason::OutOfReach),
            Some(to) => {
                ways.pass(thread, from, Some(to));
                strays.push(Stray { index, thread, from, to, demand });
            }
        }
    }
}

fn nudge(stray: &Stray, views: &[View], ground: &Ground, gatherings: &mut [Gathering]) -> Nudge {
    let gathering = &mut gatherings[stray.index];
    gathering.nudged += 1;
    if let Some(from) = stray.from {
        gathering.after[from] -= stray.demand;
    }
    gathering.after[stray.to] += stray.demand;
    Nudge {
        entity: views[stray.index].id(),
        tid: stray.thread.tid,
        to: [ground.id(stray.to)].into_iter().collect(),
    }
}

impl<'a> Ways<'a> {
    fn new(ground: &'a Ground, rules: &Rules, views: &[View]) -> Self {
        let threads = || views.iter().flat_map(|view| &view.entity.threads);
        let cpus: u64 = ground.places().map(|place| u64::from(ground.state(place).cpus)).sum();
        let level_ppm = threads().map(wanted_ppm).sum::<u64>() / cpus.max(1);
        let level_ppm = ease(level_ppm, rules).max(CPU_PPM);
        let limit = |place: Place| u64::from(ground.state(place).cpus) * level_ppm;
        let mut ways = Self {
            ground,
            load: vec![0; ground.len()],
            limit: ground.places().map(limit).collect(),
            narrow: vec![vec![0; ground.len()]; ground.reaches()],
            narrow_before: Vec::new(),
            level_ppm,
            noise_ppm: u64::from(rules.hysteresis_ppm),
        };
        for thread in threads() {
            ways.pass(thread, None, ground.place(thread.node));
        }
        ways.narrow_before.clone_from(&ways.narrow);
        for (limit, load) in ways.limit.iter_mut().zip(&ways.load) {
            *limit = (*limit).max(load + ways.noise_ppm);
        }
        ways
    }

    fn reaches(&self, thread: &Thread, place: Place) -> bool {
        self.cpus(thread, place) > 0
    }

    fn cpus(&self, thread: &Thread, place: Place) -> u32 {
        self.ground.reach_cpus(thread.reach, place)
    }

    /// How busy each CPU of a node is.
    fn busy(&self, place: Place) -> u64 {
        self.load[place] / u64::from(self.ground.state(place).cpus).max(1)
    }

    /// A thread goes from one node to another.
    fn pass(&mut self, thread: &Thread, from: Option<Place>, to: Option<Place>) {
        let wants = wanted_ppm(thread);
        let narrow = self.narrow.get_mut(thread.reach);
        if let Some(from) = from {
            self.load[from] -= wants;
        }
        if let Some(to) = to {
            self.load[to] += wants;
        }
        if let Some(narrow) = narrow {
            from.into_iter().for_each(|from| narrow[from] -= wants);
            to.into_iter().for_each(|to| narrow[to] += wants);
        }
    }

    /// Whether a node, or those of its CPUs that a thread may use, would have too much to do, and
    /// more than now.
    fn is_crowded(&self, thread: &Thread, place: Place) -> bool {
        let of_reach = |loads: &[Vec<u64>]| loads.get(thread.reach).map_or(0, |load| load[place]);
        let reach_limit = u64::from(self.cpus(thread, place)) * self.level_ppm;
        self.load[place] > self.limit[place]
            || of_reach(&self.narrow)
                > reach_limit.max(of_reach(&self.narrow_before) + self.noise_ppm)
    }

    /// Takes strays out until no node has too much to do that it would not have without them, the
    /// lightest first. What stays away may crowd where it stays, so this is done again as long as
    /// it changes anything.
    fn keep_away(&mut self, strays: &mut Vec<Stray>, gatherings: &mut [Gathering]) {
        strays.sort_by_key(|stray| (wanted_ppm(stray.thread), stray.index, stray.thread.tid));
        loop {
            let before = strays.len();
            strays.retain(|stray| {
                let stays = self.is_crowded(stray.thread, stray.to);
                if stays {
                    self.pass(stray.thread, Some(stray.to), stray.from);
                    gatherings[stray.index].reason = Some(Reason::HomeBusy);
                }
                !stays
            });
            if strays.len() == before {
                break;
            }
        }
        strays.sort_by_key(|stray| (stray.index, stray.thread.tid));
    }
}

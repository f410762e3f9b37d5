//! The CPU budget: what the balancer itself costs, and how much looking that leaves room for.

use nodeward_machine::Machine;

use super::report::Cost;
use super::settings::BalanceSettings;

/// Below so many threads looking may cost as much as for so many: a look has costs of its own.
const THREADS_MIN: u64 = 1_000;
/// Looks that were not made are made up for, up to those of so many intervals.
const SAVED_INTERVALS: i64 = 10;
/// The interval grows to so many times what was asked for at most, while nothing changes: whoever
/// strays then is seen so late...
const CALM_FACTOR_MAX: u64 = 5;
/// ...and while processes are away from home: each second that they stay there costs them more
/// than one more look would.
const CONVERGING_FACTOR_MAX: u64 = 3;

/// What CPU time is for.
#[derive(Clone, Copy, Debug)]
pub enum Activity {
    Looking,
    Observing,
    Deciding,
    Moving,
}

/// Adds up CPU time from one call to the next.
#[derive(Debug, Default)]
pub struct CpuMeter {
    at_ns: u64,
    round: Cost,
    total: Cost,
}

impl CpuMeter {
    /// Begins a round.
    pub fn begin(&mut self, machine: &dyn Machine) {
        self.round = Cost::default();
        self.at_ns = machine.own_cpu_time_ns();
    }

    /// Enters the time since the last call; returns it.
    pub fn lap(&mut self, machine: &dyn Machine, what: Activity) -> u64 {
        let now_ns = machine.own_cpu_time_ns();
        let took_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = now_ns;
        for cost in [&mut self.round, &mut self.total] {
            *match what {
                Activity::Looking => &mut cost.looking_ns,
                Activity::Observing => &mut cost.observing_ns,
                Activity::Deciding => &mut cost.deciding_ns,
                Activity::Moving => &mut cost.moving_ns,
            } += took_ns;
        }
        took_ns
    }

    /// CPU time of this round, and of all.
    pub fn costs(&self) -> (Cost, Cost) {
        (self.round, self.total)
    }
}

/// How much CPU time may still go into looks.
#[derive(Debug, Default)]
pub struct CpuBudget {
    left_ns: i64,
    /// The cost of a snapshot, as a mean of the last ones.
    snapshot_ns: u64,
    has_begun: bool,
}

impl CpuBudget {
    /// Adds what the time since the last round allows; at first, all that can be saved up: then
    /// everything is still to be seen.
    pub fn grant(&mut self, settings: &BalanceSettings, threads: u64, elapsed_ns: u64, calm: bool) {
        let of_interval = allowed_ns(settings, threads, settings.interval_ns, calm);
        let elapsed_ns = elapsed_ns.min(settings.interval_ns.saturating_mul(factor_max(calm)));
        let granted = allowed_ns(settings, threads, elapsed_ns, calm);
        let most = of_interval.saturating_mul(SAVED_INTERVALS);
        if !std::mem::replace(&mut self.has_begun, true) {
            self.left_ns = most;
        }
        self.left_ns = self.left_ns.saturating_add(granted).clamp(most.saturating_neg(), most);
    }

    /// Takes off what a snapshot cost.
    pub fn spend_snapshot(&mut self, took_ns: u64) {
        self.snapshot_ns = match self.snapshot_ns {
            0 => took_ns,
            mean => (mean * 7 + took_ns) / 8,
        };
        self.spend(took_ns);
    }

    /// Takes off what a sample cost, or anything else.
    pub fn spend(&mut self, took_ns: u64) {
        self.left_ns = self.left_ns.saturating_sub_unsigned(took_ns);
    }

    /// Whether there is any left.
    pub fn is_left(&self) -> bool {
        self.left_ns > 0
    }

    /// How many times as long the interval must be for snapshots alone to stay within what they
    /// may cost, once savings are used up.
    pub fn factor(&self, settings: &BalanceSettings, threads: u64, calm: bool) -> u64 {
        if self.is_left() {
            return 1;
        }
        let allowed =
            allowed_ns(settings, threads, settings.interval_ns, calm).max(1).unsigned_abs();
        self.snapshot_ns.div_ceil(allowed).clamp(1, factor_max(calm))
    }
}

fn factor_max(calm: bool) -> u64 {
    if calm { CALM_FACTOR_MAX } else { CONVERGING_FACTOR_MAX }
}

/// What looking at few threads may cost in a second while processes are brought home.
pub fn converging_ns_per_s(settings: &BalanceSettings) -> u64 {
    allowed_ns(settings, THREADS_MIN, 1_000_000_000, false).unsigned_abs()
}

/// What looking at so many threads may cost in this time.
fn allowed_ns(settings: &BalanceSettings, threads: u64, time_ns: u64, calm: bool) -> i64 {
    let ppm = if calm { settings.steady_ppm } else { settings.converging_ppm };
    let share = u128::from(ppm) * u128::from(threads.max(THREADS_MIN));
    i64::try_from(u128::from(time_ns) * share / 1_000_000_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Goal: 0.3 % of a CPU for 1,000 threads are 3 ms of a second, for fewer no less, and 2 %
    /// while processes are brought home.
    #[test]
    fn what_looking_may_cost() {
        let settings = BalanceSettings::default();
        let ms = |threads, calm| allowed_ns(&settings, threads, 1_000 * MS, calm) / 1_000_000;
        assert_eq!([ms(1_000, true), ms(7, true), ms(10_000, true)], [3, 3, 30]);
        assert_eq!(ms(1_000, false), 20);
    }

    /// Goal: what is overdrawn is paid back before there are samples again; what is saved up is
    /// bounded.
    #[test]
    fn looks_are_paid_for() {
        let settings = BalanceSettings::default();
        let mut budget = CpuBudget::default();
        let second = |budget: &mut CpuBudget| budget.grant(&settings, 0, 1_000 * MS, true);
        second(&mut budget);
        assert!(budget.is_left());
        budget.spend(35 * MS); // 30 at first, so -5 ms; one more second leaves -2, another +1
        second(&mut budget);
        assert!(!budget.is_left());
        second(&mut budget);
        assert!(budget.is_left());
        (0..100).for_each(|_| second(&mut budget));
        budget.spend(30 * MS); // ten intervals of 3 ms were saved, not a hundred
        assert!(!budget.is_left());
    }

    /// Goal: cheap looks of 10 ms are made a fourth as often, 10 / 3 rounded up, as soon as there
    /// are no savings.
    #[test]
    fn costly_snapshots_are_fewer() {
        let settings = BalanceSettings::default();
        let mut budget = CpuBudget::default();
        budget.grant(&settings, 500, 1_000 * MS, true);
        budget.spend_snapshot(10 * MS);
        assert_eq!(budget.factor(&settings, 500, true), 1, "20 of 30 ms are left");
        budget.spend(20 * MS);
        assert_eq!(budget.factor(&settings, 500, true), 4);
        assert_eq!(budget.factor(&settings, 500, false), 1, "20 ms while converging");
        budget.spend_snapshot(u64::MAX / 16);
        assert_eq!(budget.factor(&settings, 500, true), CALM_FACTOR_MAX);
        assert_eq!(budget.factor(&settings, 500, false), CONVERGING_FACTOR_MAX);
    }
}

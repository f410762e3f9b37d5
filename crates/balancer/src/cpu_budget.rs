//! The CPU budget: the balancer's own CPU time, and how many looks it can still afford.

use nodeward_machine::Machine;

use super::report::Cost;
use super::settings::BalanceSettings;

/// Number of threads up to which the CPU time for looks is the same: each look has fixed costs.
const THREADS_MIN: u64 = 1_000;
/// Maximum number of intervals for which unused budget is saved up.
const SAVED_INTERVALS: i64 = 10;
/// Maximum factor by which the interval grows while nothing changes. Threads that leave home are
/// then seen that much later.
const CALM_FACTOR_MAX: u64 = 5;
/// Maximum factor while processes are away from home: each second away costs them more than one
/// more look costs.
const CONVERGING_FACTOR_MAX: u64 = 3;

/// The activities of the balancer that cost CPU time.
#[derive(Clone, Copy, Debug)]
pub enum Activity {
    Looking,
    Observing,
    Deciding,
    Moving,
}

/// Measures the balancer's CPU time from one call to the next.
#[derive(Debug, Default)]
pub struct CpuMeter {
    at_ns: u64,
    round: Cost,
    total: Cost,
}

impl CpuMeter {
    /// Begins to measure a round.
    pub fn begin(&mut self, machine: &dyn Machine) {
        self.round = Cost::default();
        self.at_ns = machine.own_cpu_time_ns();
    }

    /// Adds the time since the last call to an activity, and returns it.
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

    /// Returns the CPU time of this round, and of all rounds.
    pub fn costs(&self) -> (Cost, Cost) {
        (self.round, self.total)
    }
}

/// CPU time that may still go into looks.
#[derive(Debug, Default)]
pub struct CpuBudget {
    left_ns: i64,
    /// The cost of a snapshot, as a moving mean.
    snapshot_ns: u64,
    has_begun: bool,
}

impl CpuBudget {
    /// Adds what the budget allows for the time since the last round. The first call grants all
    /// that can be saved up, because everything has to be looked at.
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

    /// Subtracts the cost of a snapshot.
    pub fn spend_snapshot(&mut self, took_ns: u64) {
        self.snapshot_ns = match self.snapshot_ns {
            0 => took_ns,
            mean => (mean * 7 + took_ns) / 8,
        };
        self.spend(took_ns);
    }

    /// Subtracts the cost of a sample, or of anything else.
    pub fn spend(&mut self, took_ns: u64) {
        self.left_ns = self.left_ns.saturating_sub_unsigned(took_ns);
    }

    /// Returns whether some budget is left.
    pub fn is_left(&self) -> bool {
        self.left_ns > 0
    }

    /// Returns the factor for the interval that keeps snapshots alone within the budget, once the
    /// savings are used up.
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

/// Returns the CPU time per second that looking at few threads may take while processes are brought
/// home.
pub fn converging_ns_per_s(settings: &BalanceSettings) -> u64 {
    allowed_ns(settings, THREADS_MIN, 1_000_000_000, false).unsigned_abs()
}

/// Returns the CPU time in nanoseconds that looking at `threads` threads may take in `time_ns`.
fn allowed_ns(settings: &BalanceSettings, threads: u64, time_ns: u64, calm: bool) -> i64 {
    let ppm = if calm { settings.steady_ppm } else { settings.converging_ppm };
    let share = u128::from(ppm) * u128::from(threads.max(THREADS_MIN));
    i64::try_from(u128::from(time_ns) * share / 1_000_000_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Goal: 0.3 % of a CPU for 1,000 threads are 3 ms per second, for fewer threads no less; and 2
    /// % while processes are brought home.
    #[test]
    fn what_looking_may_cost() {
        let settings = BalanceSettings::default();
        let ms = |threads, calm| allowed_ns(&settings, threads, 1_000 * MS, calm) / 1_000_000;
        assert_eq!([ms(1_000, true), ms(7, true), ms(10_000, true)], [3, 3, 30]);
        assert_eq!(ms(1_000, false), 20);
    }

    /// Goal: an overdrawn budget is paid back before the next sample; savings are bounded.
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

    /// Goal: snapshots of 10 ms are taken a fourth as often, 10 / 3 rounded up, once there are no
    /// savings.
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

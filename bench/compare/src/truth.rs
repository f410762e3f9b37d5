//! Compares the simulator's predictions with the lab's measurements: the figures of each workload
//! under each balancer, their distance, and the figures outside of the limits.

use serde::Serialize;

use crate::table::{CompareRow, CompareTable, RowFigures};

/// Limits of the distance: local share at the end within 5 points; time to 90 % within 1.5 s or 30
/// %; pages within 15 % or 2 % of the load's memory; work within 10 %. The best balancer is named
/// right where the measured difference is over 5 %.
const LOCAL_POINTS: f64 = 5.0;
const TO_90_S: f64 = 1.5;
const TO_90_PART: f64 = 0.3;
const PAGES_PART: f64 = 0.15;
const PAGES_OF_MEMORY: f64 = 0.02;
const WORK_PART: f64 = 0.1;
const BEST_LEAD: f64 = 1.05;

/// One figure in both worlds. Infinity is an event that never happened.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Both {
    /// In the simulator.
    pub predicted: f64,
    /// In the lab: the median of its runs.
    pub measured: f64,
    /// True if prediction and measurement are within the limit.
    pub is_near: bool,
}

/// A workload under a balancer in both worlds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TruthRow {
    /// The workload's name.
    pub workload: String,
    /// The balancer's name.
    pub balancer: String,
    /// Local share at the end, in per cent.
    pub local: Option<Both>,
    /// Seconds until 90 % were local.
    pub to_90_s: Option<Both>,
    /// Base pages moved.
    pub pages: Both,
    /// Seconds until all work was done.
    pub took_s: Both,
    /// Work per time, by that under the first balancer; `None` for that one.
    pub work: Option<Both>,
    /// Local shares in tenths of the time, predicted and measured.
    pub parts: [Vec<Option<f64>>; 2],
}

/// Both worlds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Truth {
    /// The rows that both worlds have.
    pub rows: Vec<TruthRow>,
    /// For each workload, the best balancer as predicted and as measured, and whether the
    /// prediction is right.
    pub best: Vec<(String, String, String, bool)>,
}

impl Truth {
    /// Compares two tables of the same workloads, with the memory of each in base pages.
    pub fn of(
        predicted: &CompareTable,
        measured: &CompareTable,
        memory_pages: impl Fn(&str) -> u64,
    ) -> Self {
        let rows = measured.rows.iter().filter_map(|row| {
            let same =
                |it: &&CompareRow| it.workload == row.workload && it.balancer == row.balancer;
            let figures = (predicted.rows.iter().find(same)?.cells.as_ref()?, row.cells.as_ref()?);
            Some(truth_row(row, figures, memory_pages(&row.workload)))
        });
        let rows: Vec<TruthRow> = rows.collect();
        let mut workloads: Vec<&str> = rows.iter().map(|row| row.workload.as_str()).collect();
        workloads.dedup();
        let best = workloads.iter().filter_map(|name| best(name, &rows)).collect();
        Self { rows, best }
    }

    /// Returns how many figures are compared, and how many of them are not near.
    pub fn figures(&self) -> (usize, usize) {
        let all = || self.rows.iter().flat_map(TruthRow::figures);
        (all().count(), all().filter(|both| !both.is_near).count())
    }

    /// Returns the greatest error of work, as a part of the measured one.
    pub fn worst_work(&self) -> f64 {
        let work = self.rows.iter().filter_map(|row| row.work);
        work.map(|both| (both.predicted / both.measured - 1.0).abs()).fold(0.0, f64::max)
    }
}

impl TruthRow {
    fn figures(&self) -> impl Iterator<Item = Both> {
        let Self { local, to_90_s, pages, work, .. } = self;
        [*local, *to_90_s, Some(*pages), *work].into_iter().flatten()
    }
}

fn truth_row(
    row: &CompareRow,
    (predicted, measured): (&RowFigures, &RowFigures),
    memory_pages: u64,
) -> TruthRow {
    let both = |figure: fn(&RowFigures) -> Option<f64>, is_near: &dyn Fn(f64, f64) -> bool| {
        let (predicted, measured) = (figure(predicted)?, figure(measured)?);
        Some(Both { predicted, measured, is_near: is_near(predicted, measured) })
    };
    let near_pages = |predicted: f64, measured: f64| {
        let most = (measured * PAGES_PART).max(memory_pages as f64 * PAGES_OF_MEMORY);
        (predicted - measured).abs() <= most
    };
    let (pages, took_s) = (
        [predicted, measured].map(|it| it.pages.median),
        [predicted, measured].map(|it| it.took_s.median),
    );
    let of = |[predicted, measured]: [f64; 2], is_near: bool| Both { predicted, measured, is_near };
    let is_first = row.balancer == "nothing";
    TruthRow {
        workload: row.workload.clone(),
        balancer: row.balancer.clone(),
        local: both(|it| Some(it.settled?.median), &|a, b| (a - b).abs() <= LOCAL_POINTS),
        to_90_s: both(|it| Some(it.to_90_s?.median), &near_times),
        pages: of(pages, near_pages(pages[0], pages[1])),
        took_s: of(took_s, near_part(took_s[0], took_s[1], WORK_PART)),
        work: both(|it| Some(it.work?.median), &|a, b| near_part(a, b, WORK_PART))
            .filter(|_| !is_first),
        parts: [predicted.parts.clone(), measured.parts.clone()],
    }
}

fn near_part(predicted: f64, measured: f64, part: f64) -> bool {
    (predicted - measured).abs() <= measured * part
}

/// Returns whether two times are near. A time that never came is near only to another that never
/// came.
fn near_times(predicted: f64, measured: f64) -> bool {
    match predicted.is_finite() && measured.is_finite() {
        true => (predicted - measured).abs() <= (measured * TO_90_PART).max(TO_90_S),
        false => predicted == measured,
    }
}

/// Returns a workload with its best balancers, predicted and measured, and whether the prediction
/// is right: the same one, or one that is nearly as good as measured.
fn best(workload: &str, rows: &[TruthRow]) -> Option<(String, String, String, bool)> {
    let of_it = || rows.iter().filter(|row| row.workload == workload);
    let least = |time: fn(&TruthRow) -> f64| of_it().min_by(|a, b| time(a).total_cmp(&time(b)));
    let predicted = least(|row| row.took_s.predicted)?;
    let measured = least(|row| row.took_s.measured)?;
    let is_right = predicted.took_s.measured <= measured.took_s.measured * BEST_LEAD;
    let name = |row: &TruthRow| row.balancer.clone();
    Some((workload.to_owned(), name(predicted), name(measured), is_right))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is near is near by the limits, and what never happens is near to itself only.
    #[test]
    fn near_is_what_is_asked() {
        assert!(near_part(1.09, 1.0, WORK_PART) && !near_part(1.11, 1.0, WORK_PART));
        assert!(near_times(1.0, 2.5) && !near_times(1.0, 2.6)); // 1.5 s
        assert!(near_times(7.0, 10.0) && !near_times(6.9, 10.0)); // 30 %
        let never = f64::INFINITY;
        assert!(near_times(never, never) && !near_times(never, 9.0) && !near_times(9.0, never));
    }

    /// Goal: the best is right if it is the measured best, or was at most 5 % behind it.
    #[test]
    fn the_best_is_right_or_as_good() {
        let both = |predicted, measured| Both { predicted, measured, is_near: true };
        let row = |balancer: &str, took_s| TruthRow {
            workload: "load".to_owned(),
            balancer: balancer.to_owned(),
            local: None,
            to_90_s: None,
            pages: both(0.0, 0.0),
            took_s,
            work: None,
            parts: [Vec::new(), Vec::new()],
        };
        let told = |ours| {
            let rows = [row("kernel", both(10.0, 20.0)), row("nodeward", ours)];
            best("load", &rows).unwrap()
        };
        let names = |it: (String, String, String, bool)| (it.1, it.2, it.3);
        let [kernel, nodeward] = ["kernel", "nodeward"].map(str::to_owned);
        assert_eq!(names(told(both(9.0, 20.9))), (nodeward.clone(), kernel.clone(), true));
        assert_eq!(names(told(both(9.0, 21.1))), (nodeward.clone(), kernel, false));
        assert_eq!(names(told(both(9.0, 19.0))), (nodeward.clone(), nodeward, true));
    }
}

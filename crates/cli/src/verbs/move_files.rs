//! `nodeward move --file`: the page cache of files.
//!
//! Cached pages belong to no process. This process maps them, a batch at a time, moves them like
//! memory of any process, and unmaps them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use nodeward_linux::Linux;
use nodeward_linux::file_cache::{CacheScan, MappedBatch, MappedBatches, check_kernel};
use nodeward_machine::{Error, Machine, Process};
use nodeward_model::{Escape as _, NodePairs, Pid, Range, SkipReason, Topology};
use nodeward_mover::{
    CacheMove, MoveControl, MoveOrder, MoveReport, MoveRequest, PlanReport, ProcessPlan, Selection,
    migrate, plan,
};
use nodeward_policy::cache_headroom::CacheHeadroom;

use crate::args::MoveArgs;
use crate::exit::Exit;
use crate::node_pairs;
use crate::output::files;
use crate::progress;
use crate::settings::MoveSettings;

/// Moves, or reports what a move would do.
pub fn run(args: &MoveArgs, settings: &MoveSettings) -> Result<Exit> {
    args.file.iter().try_for_each(check_path)?;
    check_kernel()?;
    let machine = Linux::open();
    let topology = machine.topology()?;
    let pairs = pairs(args, &topology)?;
    let job = PageCacheMove::new(this_process(&machine)?, topology, pairs, settings, &args.file);
    let page_bytes = job.machine.page_bytes();
    let live = MoveControl::default();
    if args.dry_run {
        let (looked, plan) = job.plan(&live)?;
        files::print_plan(&looked, &plan, page_bytes, args.output.json)?;
        return Ok(Exit::Done);
    }
    let work = || job.migrate(&live, progress::is_shown(args.progress.mode()));
    let (looked, report) = progress::run_with_progress(&live, args.progress.mode(), work)??;
    files::print_report(&looked, &report, page_bytes, args.output.json)?;
    Ok(exit(&looked, &report))
}

/// Returns a handle on this process.
pub fn this_process(machine: &dyn Machine) -> Result<Arc<dyn Process>> {
    Ok(machine.open_process(Pid::new(std::process::id())?)?)
}

/// Checks that a path exists.
fn check_path(path: &PathBuf) -> Result<()> {
    let shown = path.escaped();
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => Ok(()),
        Ok(_) => bail!("'{shown}' is no file or directory; only those have a page cache to move"),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            bail!("'{shown}' does not exist; check the path")
        }
        // Opening it will report any other error.
        Err(_) => Ok(()),
    }
}

/// Parses the words of the command line: TO, or FROM and TO.
fn pairs(args: &MoveArgs, topology: &Topology) -> Result<NodePairs> {
    let names = nodeward_linux::nodes::nodestring_context(Path::new("/"), topology)?;
    match &args.operands[..] {
        [to] => node_pairs::parse_pairs_from_all_others(to, topology, &names),
        [from, to] => node_pairs::parse_pairs(from, to, topology, &names),
        words => {
            bail!("with --file there is no PID; give [FROM] TO instead of '{}'", words.join(" "))
        }
    }
}

/// Files, and the destinations of their pages.
pub struct PageCacheMove<'a> {
    machine: Linux,
    topology: Topology,
    pairs: NodePairs,
    settings: &'a MoveSettings,
    processes: [Arc<dyn Process>; 1],
    paths: &'a [PathBuf],
}

impl<'a> PageCacheMove<'a> {
    /// Creates a job; `us` is the process that maps the files meanwhile.
    pub fn new(
        us: Arc<dyn Process>,
        topology: Topology,
        pairs: NodePairs,
        settings: &'a MoveSettings,
        paths: &'a [PathBuf],
    ) -> Self {
        Self { machine: Linux::open(), topology, pairs, settings, processes: [us], paths }
    }

    /// Moves batch after batch. Returns an error only if nothing was done before it.
    pub fn migrate(
        &self,
        live: &MoveControl,
        count_first: bool,
    ) -> Result<(CacheScan, MoveReport), Error> {
        if count_first {
            live.announce(self.batches().cached_bytes(|| live.is_stopped()));
        }
        let mut batches = self.batches();
        let mut rooms = self.headroom()?;
        let mut total = MoveReport::default();
        while let Some(batch) = batches.next_batch(|| live.is_stopped()) {
            match self.migrate_batch(&batch, live, &mut rooms) {
                Ok(report) => total.join(report),
                Err(error) if total.processes.is_empty() => return Err(error),
                Err(error) => total.error = Some(error),
            }
            if total.error.is_some() {
                break;
            }
        }
        total.interrupted = live.is_stopped() && total.error.is_none();
        Ok((batches.into_scan(), total))
    }

    fn migrate_batch(
        &self,
        batch: &MappedBatch,
        live: &MoveControl,
        rooms: &mut CacheHeadroom,
    ) -> Result<MoveReport, Error> {
        let request = self.request(batch)?;
        let mut report = match batch.is_huge() {
            // These never evict other pages.
            true => migrate(&self.machine, &self.processes, &request, live, None)?,
            false => {
                let map_again = |ranges: &[Range]| batch.remap_cached(ranges);
                self.fitting(batch, live, &map_again).migrate(&request, rooms)?
            }
        };
        // Mapped, but evicted when the move came to them; or the move ended before.
        let unseen = match report.error {
            None => SkipReason::NotPresent,
            Some(_) => SkipReason::Refused,
        };
        for process in &mut report.processes {
            let pages = self.mapped_pages(batch).saturating_sub(process.seen());
            process.account.skip(unseen, pages);
        }
        Ok(report)
    }

    /// Reports what would be done.
    pub fn plan(&self, live: &MoveControl) -> Result<(CacheScan, ProcessPlan), Error> {
        let mut batches = self.batches();
        let mut rooms = self.headroom()?;
        let mut total = PlanReport::default();
        while let Some(batch) = batches.next_batch(|| live.is_stopped()) {
            let request = self.request(&batch)?;
            let map_again = |ranges: &[Range]| batch.remap_cached(ranges);
            let mut report = match batch.is_huge() {
                true => plan(&self.machine, &self.processes, &request, live)?,
                false => self.fitting(&batch, live, &map_again).plan(&request, &mut rooms)?,
            };
            for (_, plan) in &mut report.processes {
                let unseen = self.mapped_pages(&batch).saturating_sub(plan.seen());
                plan.account.skip(SkipReason::NotPresent, unseen);
            }
            total.join(report);
        }
        let plan = total.processes.into_iter().next().map(|(_, plan)| plan);
        Ok((batches.into_scan(), plan.unwrap_or_default()))
    }

    fn batches(&self) -> MappedBatches {
        MappedBatches::new(self.paths.to_vec())
    }

    fn headroom(&self) -> Result<CacheHeadroom, Error> {
        Ok(CacheHeadroom::new(self.machine.headroom()?))
    }

    fn mapped_pages(&self, batch: &MappedBatch) -> u64 {
        batch.mapped_bytes() / self.machine.page_bytes()
    }

    fn fitting<'b>(
        &'b self,
        batch: &MappedBatch,
        live: &'b MoveControl,
        map_again: &'b dyn Fn(&[Range]),
    ) -> CacheMove<'b> {
        let mapped_pages = self.mapped_pages(batch);
        let (machine, processes) = (&self.machine, &self.processes);
        CacheMove { machine, processes, mapped_pages, control: live, map_again }
    }

    fn request(&self, batch: &MappedBatch) -> Result<MoveRequest, Error> {
        let selection = Selection { ranges: batch.ranges(), ..Selection::default() };
        let order = MoveOrder { pairs: self.pairs.clone(), pages: None };
        self.settings.request(&self.machine, &self.topology, vec![[order].into()], selection)
    }
}

fn exit(looked: &CacheScan, report: &MoveReport) -> Exit {
    let account = report.account();
    let arrived = account.moved + account.already_there;
    let skipped = account.skipped_total();
    if report.interrupted {
        Exit::Interrupted
    } else if skipped + looked.problems == 0 && report.error.is_none() {
        Exit::Done
    } else if arrived > 0 || (skipped == 0 && looked.files > 0) {
        Exit::SomeSkipped
    } else if skipped == 0 && looked.not_permitted == looked.problems {
        Exit::NoPermission
    } else {
        Exit::NothingDone
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Liveness;
    use nodeward_model::Account;
    use nodeward_mover::{ProcessReport, Residue};

    use super::*;

    fn report(account: Account) -> MoveReport {
        let process = ProcessReport {
            pid: Pid::new(7).unwrap(),
            account,
            before: [].into(),
            before_in_flight: 0,
            after: [].into(),
            residue: Residue::default(),
            life: Liveness::Running,
        };
        MoveReport { processes: vec![process], ..MoveReport::default() }
    }

    /// Goal: the exit codes are as documented if files, not pages, were the obstacle.
    #[test]
    fn files_that_were_left_out_count_like_pages() {
        let code = |(files, problems, not_permitted), moved, shared| {
            let looked = CacheScan { files, problems, not_permitted, ..CacheScan::default() };
            let mut account = Account { moved, ..Account::default() };
            account.skip(SkipReason::Shared, shared);
            exit(&looked, &report(account))
        };
        assert_eq!(code((2, 0, 0), 7, 0), Exit::Done);
        assert_eq!(code((2, 0, 0), 0, 0), Exit::Done, "nothing of them was in memory");
        assert_eq!(code((2, 0, 0), 7, 1), Exit::SomeSkipped);
        assert_eq!(code((2, 1, 0), 7, 0), Exit::SomeSkipped);
        assert_eq!(code((1, 1, 1), 0, 0), Exit::SomeSkipped, "the other could be looked at");
        assert_eq!(code((2, 0, 0), 0, 1), Exit::NothingDone);
        assert_eq!(code((0, 2, 1), 0, 0), Exit::NothingDone);
        assert_eq!(code((0, 2, 2), 0, 0), Exit::NoPermission);
    }

    /// Goal: an error after a beginning is no success, and an end by Ctrl-C is always reported.
    #[test]
    fn an_early_end_is_told() {
        let mut report = report(Account { moved: 7, ..Account::default() });
        let code = |report: &MoveReport| exit(&CacheScan::default(), report);
        assert_eq!(code(&report), Exit::Done);
        report.error = Some(Error::Gone(Pid::new(7).unwrap()));
        assert_eq!(code(&report), Exit::SomeSkipped);
        report.interrupted = true;
        assert_eq!(code(&report), Exit::Interrupted);
    }
}

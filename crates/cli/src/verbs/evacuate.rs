//! `nodeward evacuate`: moves everything movable off nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nodeward_linux::file_cache::{CacheScan, check_kernel};
use nodeward_linux::sysfs::{NodeMemoryUse, node_memory};
use nodeward_linux::used_files::UsedFiles;
use nodeward_machine::{Error, Machine};
use nodeward_model::{NodeId, NodePairs, SkipReason, Topology};
use nodeward_mover::{
    MoveControl, MoveOrder, MoveReport, MoveRequest, StopReason, migrate_in_passes,
};

use crate::args::EvacuateArgs;
use crate::machines::SelectedMachine;
use crate::machines::evacuation::{EvacuatedProcesses, EvacuationRoute};
use crate::machines::node_pairs;
use crate::machines::page_cache_move::{PageCacheMove, this_process};
use crate::machines::shared_memory::SharedMemory;
use crate::message::exit::Exit;
use crate::output::evacuation::{self, EvacuationPlan, EvacuationReport};
use crate::output::shared_memory::SharedMemoryReport;
use crate::progress;
use crate::settings::MoveSettings;
use crate::settings::state_dir::now_unix_ms;
use crate::verbs::move_files::check_path;
use crate::verbs::move_task::{begin_journal, move_segments};

/// Evacuates nodes, or reports what an evacuation would do.
pub fn run(args: &EvacuateArgs, settings: &MoveSettings) -> Result<Exit> {
    args.file.iter().try_for_each(check_path)?;
    if args.files || !args.file.is_empty() {
        check_kernel()?;
    }
    let chosen = SelectedMachine::open(&args.run.simulated.machine_args, args.run.simulated.seed)?;
    let live = chosen.control(args.run.until.deadline);
    let (machine, topology) = (chosen.machine(), chosen.machine().topology()?);
    let names = chosen.node_names(&topology)?;
    let (sources, to) =
        node_pairs::parse_evacuation(&args.nodes, args.to.as_deref(), &topology, &names)?;
    let route = EvacuationRoute::choose(machine, &topology, sources, to)?;
    let is_local = matches!(chosen, SelectedMachine::Local(_));
    let job = Evacuation { args, settings, machine, topology, route, is_local };
    if args.run.dry_run {
        let plan = job.plan(&live)?;
        evacuation::print_plan(&plan, args.run.output.json)?;
        return Ok(if plan.found.are_all_denied() { Exit::NoPermission } else { Exit::Done });
    }
    let work = || job.carry_out(&live);
    let report = progress::run_with_progress(&live, args.run.progress.mode(), work)??;
    evacuation::print_report(&report, args.run.output.json)?;
    Ok(exit(&report))
}

/// An evacuation with all its parameters.
struct Evacuation<'a> {
    args: &'a EvacuateArgs,
    settings: &'a MoveSettings,
    machine: &'a dyn Machine,
    topology: Topology,
    route: EvacuationRoute,
    is_local: bool,
}

impl Evacuation<'_> {
    /// Looks what would move in the first pass.
    fn plan(&self, live: &MoveControl) -> Result<EvacuationPlan<'_>> {
        let found = self.find(live)?;
        let shared = self.shared_memory(&found, live)?.filter(|shared| shared.segments() > 0);
        let segments = shared.map(|shared| shared.segments_move(self.settings).plan(live));
        let paths = self.paths(&found, live);
        let files = self.files_move(&paths)?.map(|job| job.plan(live)).transpose()?;
        let segments = segments.transpose()?.map(|(_, plan)| plan);
        let page_bytes = self.machine.page_bytes();
        Ok(EvacuationPlan { route: &self.route, page_bytes, found, segments, files })
    }

    /// Moves. Returns an error only if nothing was done.
    fn carry_out(&self, live: &MoveControl) -> Result<EvacuationReport<'_>> {
        let found = self.find(live)?;
        let find_stopped = live.stop_reason();
        let shared = self.shared_memory(&found, live)?;
        let writes_ledger =
            self.is_local && !self.args.run.no_ledger && !found.residents.is_empty();
        let begin = || begin_journal(self.machine, Ok(found.identities.clone()), None);
        let journal = writes_ledger.then(begin).flatten();
        let mut moves = match found.residents.is_empty() {
            true => MoveReport::default(),
            false => {
                let passes = self.requests(found.residents.len())?;
                let processes = &found.residents;
                migrate_in_passes(self.machine, processes, &passes, live, journal.as_ref())?
            }
        };
        moves.stopped = moves.stopped.or(find_stopped);
        let shared = shared.map(|shared| self.move_segments(&shared, live, &mut moves));
        let paths = self.paths(&found, live);
        let files = self.files_move(&paths)?;
        if files.is_some() && live.is_stopped() {
            moves.stopped = live.stop_reason();
        }
        let files = files.filter(|_| moves.stopped.is_none());
        let files = files.map(|job| self.move_files(job, live));
        let end = |journal: nodeward_mover::SharedLedger| {
            journal.end(moves.account(), moves.stopped.is_some(), now_unix_ms())
        };
        let ledger = journal.and_then(end);
        let with_policies = found.with_policies(live);
        let (page_bytes, memory) = (self.machine.page_bytes(), self.memory());
        let route = &self.route;
        Ok(EvacuationReport {
            route,
            page_bytes,
            found,
            moves,
            ledger,
            shared,
            files,
            with_policies,
            memory,
        })
    }

    fn find(&self, live: &MoveControl) -> Result<EvacuatedProcesses, Error> {
        let requests = self.requests(1)?;
        EvacuatedProcesses::find(self.machine, &self.route.sources, &requests[0], live)
    }

    /// Returns the request of each pass.
    fn requests(&self, processes: usize) -> Result<Vec<MoveRequest>, Error> {
        let request = |pairs: &NodePairs| {
            let orders = [MoveOrder { pairs: pairs.clone(), pages: None }].into();
            let orders = vec![orders; processes];
            let selection = self.args.skip.selection();
            self.settings.request(self.machine, &self.topology, orders, selection)
        };
        self.route.passes.iter().map(request).collect()
    }

    /// Finds shared segments, also those of processes that have no page of them on the nodes.
    fn shared_memory(
        &self,
        found: &EvacuatedProcesses,
        live: &MoveControl,
    ) -> Result<Option<SharedMemory>> {
        if !self.is_local {
            return Ok(None);
        }
        let (selection, pairs) = (self.args.skip.selection(), &self.route.passes[0]);
        SharedMemory::find(&found.opened, &selection, (&self.topology, pairs), live)
    }

    fn move_segments(
        &self,
        shared: &SharedMemory,
        live: &MoveControl,
        moves: &mut MoveReport,
    ) -> SharedMemoryReport {
        let in_passes = |job: PageCacheMove<'_>| job.migrate_in_passes(&self.route.passes, live);
        let segments = move_segments(shared, self.settings, live, moves, in_passes);
        SharedMemoryReport { segments, pages_before_and_after: None }
    }

    /// Returns the files whose cache is to move: those that processes use, and those named.
    fn paths(&self, found: &EvacuatedProcesses, live: &MoveControl) -> Vec<PathBuf> {
        let used = match self.args.files {
            true => {
                let opened = found.opened.iter().take_while(|_| !live.is_stopped());
                UsedFiles::of(opened.map(|process| &**process)).paths
            }
            false => Vec::new(),
        };
        used.into_iter().chain(self.args.file.iter().cloned()).collect()
    }

    /// Returns a job for cached files; `None` if none are to move.
    fn files_move<'b>(&'b self, paths: &'b [PathBuf]) -> Result<Option<PageCacheMove<'b>>> {
        if !self.args.files && paths.is_empty() {
            return Ok(None);
        }
        let (us, pairs) = (this_process(self.machine)?, self.route.passes[0].clone());
        Ok(Some(PageCacheMove::new(us, self.topology.clone(), pairs, self.settings, paths)))
    }

    /// Moves cached files. An error is part of the report: memory of processes has moved already.
    fn move_files(&self, job: PageCacheMove<'_>, live: &MoveControl) -> (CacheScan, MoveReport) {
        job.migrate_in_passes(&self.route.passes, live).unwrap_or_else(|error| {
            (CacheScan::default(), MoveReport { error: Some(error), ..MoveReport::default() })
        })
    }

    /// Returns the use of the emptied nodes now, as far as the machine tells it.
    fn memory(&self) -> BTreeMap<NodeId, NodeMemoryUse> {
        let nodes = self.route.sources.iter().filter(|_| self.is_local);
        let memory = |node| Some((node, node_memory(Path::new("/"), node).ok()?));
        nodes.filter_map(memory).collect()
    }
}

/// Returns the exit code. Pages that went away by themselves, or are in swap, have left the nodes.
fn exit(report: &EvacuationReport<'_>) -> Exit {
    let gone = [SkipReason::NotPresent, SkipReason::Gone, SkipReason::Swapped];
    let account = report.account();
    let stayed = account.skipped.iter().filter(|(reason, _)| !gone.contains(reason));
    let stayed: u64 = stayed.map(|(_, pages)| pages).sum();
    let left_out = report.files.as_ref().map_or(0, |(looked, _)| looked.problems);
    let denied = report.found.denied;
    let stopped = report.stopped();
    if stopped == Some(StopReason::Requested) {
        Exit::Interrupted
    } else if stayed + left_out + denied == 0 && !report.has_error() && stopped.is_none() {
        Exit::Done
    } else if account.moved > 0 {
        Exit::SomeSkipped
    } else if stayed == 0 && report.found.are_all_denied() {
        Exit::NoPermission
    } else if stayed > 0 || stopped.is_some() {
        Exit::NothingDone
    } else {
        Exit::SomeSkipped
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{Account, Pid};

    use super::super::move_files::tests::report;
    use super::*;

    /// Returns the exit code after an account; `denied` processes may not be touched, and
    /// `is_opened` if any was opened.
    fn code(account: Account, denied: u64, is_opened: bool) -> Exit {
        let pid = Pid::new(7).unwrap();
        let machine = FakeMachine::new(true);
        machine.spawn(pid, FakeProcess::default());
        let opened = is_opened.then(|| machine.open_process(pid).unwrap()).into_iter().collect();
        let topology = machine.topology().unwrap();
        let sources = [NodeId(1)].into_iter().collect();
        exit(&EvacuationReport {
            route: &EvacuationRoute::choose(&machine, &topology, sources, None).unwrap(),
            page_bytes: 4096,
            found: EvacuatedProcesses { denied, opened, ..EvacuatedProcesses::default() },
            moves: report(account),
            ledger: None,
            shared: None,
            files: None,
            with_policies: Vec::new(),
            memory: BTreeMap::new(),
        })
    }

    fn account(moved: u64, reason: SkipReason, stayed: u64) -> Account {
        Account { moved, already_there: 0, skipped: [(reason, stayed)].into() }
    }

    /// Goal: the exit codes are as documented: a page that went away is not one that stayed, and
    /// processes that may not be touched are no success.
    #[test]
    fn exit_codes() {
        use SkipReason::{Gone, NoMemory, NotPresent, Swapped};
        assert_eq!(code(Account::default(), 0, true), Exit::Done, "the node was empty");
        for went in [Gone, NotPresent, Swapped] {
            assert_eq!(code(account(7, went, 3), 0, true), Exit::Done, "{went}");
        }
        assert_eq!(code(account(7, NoMemory, 1), 0, true), Exit::SomeSkipped);
        assert_eq!(code(account(0, NoMemory, 1), 0, true), Exit::NothingDone);
        assert_eq!(code(account(7, Gone, 0), 2, true), Exit::SomeSkipped);
        assert_eq!(code(Account::default(), 2, true), Exit::SomeSkipped);
        assert_eq!(code(Account::default(), 2, false), Exit::NoPermission);
    }
}

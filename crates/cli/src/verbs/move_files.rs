//! `nodeward move --file`: the page cache of files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use nodeward_linux::Linux;
use nodeward_linux::file_cache::{CacheScan, check_kernel};
use nodeward_machine::Machine;
use nodeward_model::{Escape as _, NodePairs, Topology};
use nodeward_mover::{MoveControl, MoveDeadline, MoveReport, StopReason};

use crate::args::MoveArgs;
use crate::machines::page_cache_move::{PageCacheMove, this_process};
use crate::machines::{NodeNames, node_pairs};
use crate::message::exit::Exit;
use crate::output::files;
use crate::progress;
use crate::settings::MoveSettings;

/// Moves, or reports what a move would do.
pub fn run(args: &MoveArgs, settings: &MoveSettings) -> Result<Exit> {
    args.file.iter().try_for_each(check_path)?;
    check_kernel()?;
    let live = MoveControl::until(args.run.until.deadline.map(MoveDeadline::in_real_time));
    let machine = Linux::open();
    let topology = machine.topology()?;
    let pairs = pairs(args, &topology)?;
    let job = PageCacheMove::new(this_process(&machine)?, topology, pairs, settings, &args.file);
    let page_bytes = machine.page_bytes();
    if args.run.dry_run {
        let (looked, plan) = job.plan(&live)?;
        files::print_plan(&looked, &plan, page_bytes, args.run.output.json)?;
        return Ok(Exit::Done);
    }
    let work = || job.migrate(&live, progress::is_shown(args.run.progress.mode()));
    let (looked, report) = progress::run_with_progress(&live, args.run.progress.mode(), work)??;
    files::print_report(&looked, &report, page_bytes, args.run.output.json)?;
    Ok(exit(&looked, &report))
}

/// Checks that a path exists.
pub fn check_path(path: &PathBuf) -> Result<()> {
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
    let names = NodeNames::below(Path::new("/"), topology)?;
    match &args.operands[..] {
        [to] => node_pairs::parse_pairs_from_all_others(to, topology, &names),
        [from, to] => node_pairs::parse_pairs(from, to, topology, &names),
        words => {
            bail!("with --file there is no PID; give [FROM] TO instead of '{}'", words.join(" "))
        }
    }
}

fn exit(looked: &CacheScan, report: &MoveReport) -> Exit {
    let account = report.account();
    let arrived = account.moved + account.already_there;
    let skipped = account.skipped_total();
    let is_cut = report.stopped.is_some() || report.error.is_some();
    if report.stopped == Some(StopReason::Requested) {
        Exit::Interrupted
    } else if skipped + looked.problems == 0 && !is_cut {
        Exit::Done
    } else if arrived > 0 || (skipped == 0 && looked.files > 0) {
        Exit::SomeSkipped
    } else if skipped == 0 && !is_cut && looked.not_permitted == looked.problems {
        Exit::NoPermission
    } else {
        Exit::NothingDone
    }
}

#[cfg(test)]
pub(super) mod tests {
    use nodeward_machine::{Error, Liveness};
    use nodeward_model::{Account, Pid, SkipReason};
    use nodeward_mover::{ProcessReport, Residue};

    use super::*;

    /// Returns the report of a move of one process, with this account.
    pub fn report(account: Account) -> MoveReport {
        let process = ProcessReport {
            pid: Pid::new(7).unwrap(),
            account,
            before: [].into(),
            before_in_flight: 0,
            after: [].into(),
            unexamined_bytes: 0,
            verified: true,
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
        report.stopped = Some(StopReason::Requested);
        assert_eq!(code(&report), Exit::Interrupted);
    }
}

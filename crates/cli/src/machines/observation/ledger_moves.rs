//! The moves of the ledger that went on while a watch did.

use nodeward_records::ledger::{
    LedgerError, LedgerStore, Operation, OperationOutline, OperationState,
};

/// Reads the moves that had not ended at a time, in milliseconds since 1970; the latest first. Also
/// returns how many entries cannot be read.
///
/// # Errors
/// If the ledger cannot be listed.
pub fn moves_since(
    store: &LedgerStore,
    since_unix_ms: u64,
) -> Result<(Vec<Operation>, usize), LedgerError> {
    let (mut moves, mut unreadable) = (Vec::new(), 0);
    for summary in store.list()? {
        match summary.outline {
            Ok(outline) if !is_since(&outline, since_unix_ms) => {}
            Ok(_) => match store.read(summary.id) {
                Ok(operation) => moves.push(operation),
                // It was removed to make room for another one.
                Err(LedgerError::NoSuchId { .. }) => {}
                Err(_) => unreadable += 1,
            },
            Err(_) => unreadable += 1,
        }
    }
    Ok((moves, unreadable))
}

fn is_since(outline: &OperationOutline, since_unix_ms: u64) -> bool {
    match &outline.state {
        OperationState::Running => true,
        OperationState::Ended(end) => end.ended_unix_ms >= since_unix_ms,
        OperationState::Interrupted => outline.header.began_unix_ms >= since_unix_ms,
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::{Account, Name, NodeId, Pid, ProcessIdentity};
    use nodeward_records::ledger::{Header, LedgerWriter, MovedRuns, OperationEnd, StoreLimits};

    use super::*;

    fn begin(store: &LedgerStore, began_unix_ms: u64) -> LedgerWriter {
        let identity = ProcessIdentity {
            pid: Pid::new(7).unwrap(),
            name: "db".into(),
            boot_id: String::new(),
            started_ticks: 1,
            auxv_checksum: 1,
        };
        let header = Header {
            page_bytes: 4096,
            began_unix_ms,
            command: ["nodeward", "move"].map(Name::from).into(),
            processes: vec![identity],
            undoes: None,
        };
        store.begin(&header).unwrap()
    }

    /// Goal: a move that ended before the watch is left out; one that ended in it, one that is
    /// running and one that was killed in it are read, with what moved.
    #[test]
    fn moves_of_the_time_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = LedgerStore::new(folder.path().to_owned(), StoreLimits::default());
        for (began, ended_unix_ms) in [(100, 200), (150, 1_500)] {
            let mut writer = begin(&store, began);
            let mut runs = MovedRuns::new(4096);
            runs.push(0x1000, 3, NodeId(0), NodeId(1));
            let intent = writer.intend(0, runs).unwrap();
            writer.settle(intent, None).unwrap();
            let account = Account::default();
            writer.end(&OperationEnd { account, interrupted: false, ended_unix_ms }).unwrap();
        }
        drop(begin(&store, 900)); // killed before the watch
        drop(begin(&store, 1_200)); // killed in it
        let _running = begin(&store, 300);
        let (moves, unreadable) = moves_since(&store, 1_000).unwrap();
        let began: Vec<u64> = moves.iter().map(|it| it.header.began_unix_ms).collect();
        assert_eq!((began, unreadable), (vec![300, 1_200, 150], 0));
        assert_eq!(moves[2].moved_pages(), 3);
        std::fs::write(folder.path().join("9.ledger"), "no ledger").unwrap();
        assert_eq!(moves_since(&store, 1_000).unwrap().1, 1);
    }
}

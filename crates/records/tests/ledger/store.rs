//! Goal: operations are listed with any other files in the directory, old ones make room for new
//! ones, and no number is assigned twice.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Barrier;
use std::thread;

use nodeward_records::ledger::{
    LedgerError, LedgerStore, OperationId, OperationState, StoreLimits,
};

use crate::small::{file, size, small};
use crate::support::{end, header, id, runs, store, store_with};

fn listed(store: &LedgerStore) -> Vec<OperationId> {
    store.list().unwrap().iter().map(|summary| summary.id).collect()
}

/// Begins and ends an operation.
fn operate(store: &LedgerStore) -> OperationId {
    let writer = store.begin(&header(1)).unwrap();
    let id = writer.id();
    writer.end(&end()).unwrap();
    id
}

fn operate_times(times: usize, store: &LedgerStore) {
    for _ in 0..times {
        operate(store);
    }
}

#[test]
fn the_latest_stand_first_each_with_its_state() {
    let (_dir, store) = store();
    assert_eq!(operate(&store), id(1));
    let mut killed = store.begin(&header(1)).unwrap();
    let _open = killed.intend(0, runs(&[(5, 3, 0, 1)])).unwrap();
    drop(killed);
    let running = store.begin(&header(2)).unwrap();
    let list = store.list().unwrap();
    let states: Vec<_> = list.into_iter().map(|summary| (summary.id, summary.outline)).collect();
    let states: Vec<_> = states.iter().map(|(id, o)| (*id, &o.as_ref().unwrap().state)).collect();
    let expected = [
        (id(3), &OperationState::Running),
        (id(2), &OperationState::Interrupted),
        (id(1), &OperationState::Ended(end())),
    ];
    assert_eq!(states, expected);
    assert_eq!(store.list().unwrap()[1].outline.as_ref().unwrap().open_pages, 3);
    running.end(&end()).unwrap();
    assert_eq!(store.read(id(3)).unwrap().state, OperationState::Ended(end()));
}

#[test]
fn a_store_that_was_never_used_is_empty() {
    let (dir, _) = store();
    let store = LedgerStore::new(dir.path().join("state/nodeward/ledger"), StoreLimits::default());
    assert_eq!(listed(&store), []);
    let error = store.read(id(7)).unwrap_err().to_string();
    assert!(error.contains("has no operation 7; it has none at all"), "{error}");
    assert!(!dir.path().join("state").exists(), "looking makes nothing");
    assert_eq!(operate(&store), id(1));
    let mode =
        |path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
    assert_eq!(mode(dir.path().join("state/nodeward/ledger")) & 0o777, 0o700);
    assert_eq!(mode(dir.path().join("state/nodeward/ledger/1.ledger")) & 0o777, 0o600);
}

#[test]
fn who_asks_for_a_wrong_number_is_told_the_right_ones() {
    let (dir, store) = store();
    operate_times(4, &store);
    fs::remove_file(dir.path().join("3.ledger")).unwrap();
    let error = store.read(id(3)).unwrap_err().to_string();
    assert!(error.ends_with("has no operation 3; choose one of 1-2, 4"), "{error}");
}

#[test]
fn files_that_cannot_be_read_do_not_hide_the_others() {
    let (dir, store) = store();
    let (good, sizes) = small();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    let mut newer = good.clone();
    newer[8] = 9;
    put("2.ledger", &good);
    put("3.ledger", b"a diary of mine");
    put("4.ledger", &newer);
    put("5.ledger", &good[..sizes[0] - 1]);
    put("6.ledger", &[&good[..sizes[1]], b"not a record"].concat());
    put("7.ledger", b"");
    fs::create_dir(dir.path().join("8.ledger")).unwrap();
    put("9.ledger~", &good);
    put("README", b"not listed");
    put("new", &good[..sizes[0] - 1]); // by a command that was killed while it began

    let list = store.list().unwrap();
    let told: Vec<(OperationId, Result<u64, String>)> = list
        .iter()
        .map(|summary| match &summary.outline {
            Ok(outline) => (summary.id, Ok(outline.moved_pages)),
            Err(error) => (summary.id, Err(error.to_string().replace(' ', "_"))),
        })
        .collect();
    let is_error = |at: usize, number, words: &str| {
        let (seen, error) = &told[at];
        let error = error.as_ref().unwrap_err().replace('_', " ");
        assert!(*seen == id(number) && error.contains(words), "{number}: {error}");
        assert!(error.contains(&format!("{number}.ledger")), "{error}");
    };
    is_error(0, 8, "is not a ledger");
    is_error(1, 7, "tells of no operation");
    assert_eq!(told[2], (id(6), Ok(0)));
    assert_eq!(list[2].outline.as_ref().unwrap().damage.as_ref().unwrap().at_byte, sizes[1] as u64);
    is_error(3, 5, "tells of no operation");
    is_error(4, 4, "version 9");
    is_error(5, 3, "is not a ledger");
    assert_eq!(told[6], (id(2), Ok(4 + 2)));
    assert_eq!(told.len(), 7);
    assert_eq!(operate(&store), id(9), "after the highest, whatever it is");
    assert_eq!(store.read(id(9)).unwrap().state, OperationState::Ended(end()));
}

#[test]
fn the_oldest_make_room() {
    let (dir, store) = store_with(StoreLimits { operations: 3, ..StoreLimits::default() });
    operate_times(5, &store);
    assert_eq!(listed(&store), [5, 4, 3].map(id));

    // All files have the same size. Beside the room for the new one, two more fit, not three.
    let one = fs::metadata(dir.path().join("5.ledger")).unwrap().len();
    let total_bytes = 1000 + 2 * one;
    let limits = StoreLimits { operations: 100, operation_bytes: 1000, total_bytes };
    let store = LedgerStore::new(dir.path().to_owned(), limits);
    operate_times(5, &store);
    assert_eq!(listed(&store), [10, 9, 8].map(id));
}

#[test]
fn numbers_never_come_back() {
    let (_dir, store) =
        store_with(StoreLimits { operations: 0, total_bytes: 0, ..StoreLimits::default() });
    for number in 1..5 {
        assert_eq!(operate(&store), id(number));
        assert_eq!(listed(&store), [id(number)], "the latest is never taken away");
    }
}

#[test]
fn what_is_running_is_never_taken_away() {
    let (_dir, store) = store_with(StoreLimits { operations: 2, ..StoreLimits::default() });
    let running = store.begin(&header(1)).unwrap();
    operate_times(3, &store);
    assert_eq!(listed(&store), [4, 1].map(id), "the running one counts");
    running.end(&end()).unwrap();
    assert_eq!(store.read(id(1)).unwrap().state, OperationState::Ended(end()));
    operate(&store);
    assert_eq!(listed(&store), [5, 4].map(id));
}

#[test]
fn the_last_number_of_all() {
    let (dir, store) = store();
    fs::write(dir.path().join(format!("{}.ledger", u64::MAX)), "").unwrap();
    assert!(matches!(store.begin(&header(1)), Err(LedgerError::LastId { .. })));
}

/// Goal: with any limit, the file keeps it, records whether it is complete, and is true: no page is
/// recorded as moved that was not, and every accepted intent is there.
#[test]
fn an_operation_keeps_its_limit() {
    let (mut seen_refused, mut seen_complete) = (false, false);
    for operation_bytes in 0..700 {
        let (dir, store) = store_with(StoreLimits { operation_bytes, ..StoreLimits::default() });
        let mut writer = match store.begin(&header(1)) {
            Ok(writer) => writer,
            Err(LedgerError::Full { limit, .. }) if limit == operation_bytes => {
                let left = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name());
                assert_eq!(left.collect::<Vec<_>>(), ["lock"], "nothing is left behind");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let path = file(&dir, &writer);
        let (mut accepted, mut settled, mut refused) = (0, 0, false);
        for number in 0..6 {
            // 8 pages in one run, of which the 4 even ones move: the settlement is the longer
            // record.
            let Ok(ticket) = writer.intend(0, runs(&[(100 * number, 8, 0, 1)])) else {
                refused = true;
                continue;
            };
            assert!(!refused, "after one refusal all are refused");
            accepted += 8;
            let even = [0, 2, 4, 6].map(|page| (100 * number + page, 1, 0, 1));
            match writer.settle(ticket, Some(runs(&even))) {
                Ok(()) => settled += 4,
                Err(_) => refused = true,
            }
        }
        let bytes = size(&dir, &writer);
        writer.end(&end()).expect("the end always has room");
        assert!(bytes < size_of_file(&path) && size_of_file(&path) as u64 <= operation_bytes);
        let operation = store.read(id(1)).unwrap();
        assert_eq!(
            (operation.state.clone(), operation.is_complete),
            (OperationState::Ended(end()), !refused)
        );
        assert_eq!(operation.moved_pages(), settled);
        assert_eq!(operation.open_pages(), accepted - settled / 4 * 8);
        seen_refused |= refused;
        seen_complete |= !refused;
    }
    assert!(seen_refused && seen_complete, "the limits were chosen to show both");
}

fn size_of_file(path: &std::path::Path) -> usize {
    fs::metadata(path).unwrap().len().try_into().unwrap()
}

/// Goal: an operation that moves pages without addresses is readable, and says that it lacks some.
#[test]
fn moves_without_addresses_are_noted() {
    let (_dir, store) = store_with(StoreLimits::default());
    let mut writer = store.begin(&header(1)).unwrap();
    let ticket = writer.intend(0, runs(&[(1, 8, 0, 1)])).unwrap();
    writer.note_unlisted_moves().unwrap();
    writer.settle(ticket, None).unwrap();
    writer.end(&end()).unwrap();
    let operation = store.read(id(1)).unwrap();
    assert_eq!((operation.is_complete, operation.moved_pages()), (false, 8));
}

/// Goal: an intent that moved as a whole can be settled even if the ledger became full after it.
#[test]
fn room_is_kept_for_what_is_open() {
    let (_dir, store) = store_with(StoreLimits { operation_bytes: 2000, ..StoreLimits::default() });
    let mut writer = store.begin(&header(1)).unwrap();
    let run = |number: u64| runs(&[(10 * number, 5, 0, 1)]);
    let tickets: Vec<_> = (0..).map_while(|number| writer.intend(0, run(number)).ok()).collect();
    let count = tickets.len() as u64;
    for (number, ticket) in (0..).zip(tickets) {
        writer.settle(ticket, Some(run(number))).unwrap();
    }
    writer.end(&end()).unwrap();
    let operation = store.read(id(1)).unwrap();
    assert!(!operation.is_complete && count > 10);
    assert_eq!((operation.moved_pages(), operation.open_pages()), (5 * count, 0));
}

/// Goal: after the first refusal all intents are refused, also one that would fit, so that "not
/// complete" has one position from which it holds.
#[test]
fn a_full_ledger_stays_full() {
    let (_dir, store) = store_with(StoreLimits { operation_bytes: 2000, ..StoreLimits::default() });
    let mut writer = store.begin(&header(1)).unwrap();
    let scattered: Vec<_> = (0..1000).map(|page| (2 * page, 1, 0, 1)).collect(); // 2 bytes each
    let error = writer.intend(0, runs(&scattered)).unwrap_err();
    assert!(error.to_string().contains("1.ledger would outgrow 2000 bytes"), "{error}");
    assert!(matches!(writer.intend(0, runs(&[(1, 1, 0, 1)])), Err(LedgerError::Full { .. })));
    writer.end(&end()).unwrap();
    let operation = store.read(id(1)).unwrap();
    assert_eq!((operation.is_complete, operation.open_pages()), (false, 0));
}

/// Goal: concurrent commands get different numbers and keep their files, while old files are
/// removed all the time and others list them.
#[test]
fn many_at_once() {
    let (_dir, store) =
        store_with(StoreLimits { operations: 1, total_bytes: 0, ..StoreLimits::default() });
    let (threads, rounds) = (8, 20);
    let barrier = Barrier::new(threads);
    let work = || {
        barrier.wait();
        let one = |_| {
            let mut writer = store.begin(&header(1)).unwrap();
            let _open = writer.intend(0, runs(&[(3, 1, 0, 1)])).unwrap();
            let id = writer.id();
            let operation = store.read(id).expect("a running operation stays");
            assert_eq!((operation.open_pages(), operation.state), (1, OperationState::Running));
            assert!(store.list().unwrap().iter().all(|summary| summary.outline.is_ok()));
            id
        };
        (0..rounds).map(one).collect::<Vec<OperationId>>()
    };
    let ids: Vec<Vec<OperationId>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|ids| ids.is_sorted()), "numbers grow");
    let ids: BTreeSet<OperationId> = ids.into_iter().flatten().collect();
    let all: BTreeSet<OperationId> = (1..=(threads * rounds) as u64).map(id).collect();
    assert_eq!(ids, all, "each number once, none left out");
}

//! Goal: a file that was truncated anywhere, or in which any bit was changed, gives the records
//! before that place, or an error; never anything else.

use std::fs;

use nodeward_records::ledger::{
    Header, LedgerError, LedgerStore, MovedRuns, Operation, OperationCause, OperationId,
    OperationState, StoreLimits, VERSION,
};

use crate::small::{decode, file, pages, small};
use crate::support::{end, header, id, runs, store};

/// The expected content of the small operation after each of its records, first the header: the
/// pages moved and those still open, of both processes.
fn known() -> [[MovedRuns; 4]; 7] {
    let none = || runs(&[]);
    let first = || runs(&[(1000, 4, 0, 1)]);
    let second = || runs(&[(50, 2, 0, 1), (60, 1, 2, 1)]);
    let moved = || runs(&[(51, 1, 0, 1), (60, 1, 2, 1)]);
    let third = || runs(&[(2000, 3, 0, 1)]);
    [
        [none(), none(), none(), none()],
        [none(), first(), none(), none()],
        [none(), first(), none(), second()],
        [none(), first(), moved(), none()],
        [first(), none(), moved(), none()],
        [first(), third(), moved(), none()],
        [first(), third(), moved(), none()],
    ]
}

/// Asserts that the operation has exactly the expected content after this record.
fn assert_known(operation: &Operation, record: usize) {
    let of_process = |index: usize| {
        let process = &operation.processes[index];
        [pages(&process.moved), pages(&process.open)]
    };
    let seen = [of_process(0), of_process(1)].concat();
    assert_eq!(seen, known()[record].each_ref().map(pages), "after record {record}");
    let ended =
        if record == 6 { OperationState::Ended(end()) } else { OperationState::Interrupted };
    assert_eq!(operation.state, ended, "after record {record}");
    assert!(operation.is_complete);
}

#[test]
fn cut_at_every_byte() {
    let (bytes, sizes) = small();
    for length in 0..=bytes.len() {
        match (decode(&bytes[..length]), sizes.iter().rposition(|&size| size <= length)) {
            (Err(LedgerError::NoHeader { .. }), None) => {}
            (Ok(operation), Some(record)) => {
                assert_known(&operation, record);
                assert_eq!(operation.damage, None, "a short file is not a damaged one: {length}");
            }
            (other, record) => panic!("cut at {length}, after {record:?}: {other:?}"),
        }
    }
}

#[test]
fn every_single_bit() {
    let (bytes, sizes) = small();
    for bit in 0..bytes.len() * 8 {
        let byte = bit / 8;
        let mut damaged = bytes.clone();
        damaged[byte] ^= 1 << (bit % 8);
        let before = sizes.iter().rposition(|&size| size <= byte);
        match (decode(&damaged), before) {
            // 8 bytes of magic, 4 of version, then the header.
            (Err(LedgerError::NotALedger { .. }), None) if byte < 8 => {}
            (Err(LedgerError::OtherVersion { .. }), None) if (8..12).contains(&byte) => {}
            (Err(LedgerError::NoHeader { .. }), None) if byte >= 12 => {}
            (Ok(operation), Some(record)) => {
                assert_known(&operation, record);
                let damage = operation.damage.expect("damage is never passed over");
                assert_eq!(damage.at_byte, sizes[record] as u64, "bit {bit}");
            }
            (other, record) => panic!("bit {bit}, after {record:?}: {other:?}"),
        }
    }
}

#[test]
fn what_stands_behind_the_end_is_damage() {
    let (bytes, sizes) = small();
    let settlement = &bytes[sizes[2]..sizes[3]];
    let operation = decode(&[&bytes, settlement].concat()).unwrap();
    assert_known(&operation, 6);
    assert_eq!(operation.damage.unwrap().at_byte, bytes.len() as u64);
}

#[test]
fn records_out_of_order_are_damage() {
    let (bytes, sizes) = small();
    let record = |n: usize| &bytes[if n == 0 { 12 } else { sizes[n - 1] }..sizes[n]];
    let beginning = &bytes[..sizes[0]];
    for (what, wrong) in [("header", 0), ("settled without intent", 3)] {
        let operation = decode(&[beginning, record(wrong)].concat()).unwrap();
        assert_known(&operation, 0);
        assert!(operation.damage.is_some(), "{what}");
    }
    let operation = decode(&[beginning, record(1), record(1)].concat()).unwrap();
    assert_known(&operation, 1);
    assert!(operation.damage.is_some(), "the same intent twice");
    let (dir, store) = store();
    let writer = store.begin(&header(1)).unwrap();
    let lonely = fs::read(file(&dir, &writer)).unwrap();
    let operation = decode(&[&lonely, record(2)].concat()).unwrap();
    assert_eq!((operation.processes.len(), operation.open_pages()), (1, 0));
    assert!(operation.damage.is_some(), "an intent of the second process of one");
    let headless = decode(&[&bytes[..12], record(1)].concat());
    assert!(matches!(headless, Err(LedgerError::NoHeader { .. })));
}

#[test]
fn a_header_of_impossible_pages() {
    for page_bytes in [0, 4095] {
        let (dir, store) = store();
        let writer = store.begin(&Header { page_bytes, ..header(1) }).unwrap();
        let error = decode(&fs::read(file(&dir, &writer)).unwrap()).unwrap_err();
        assert!(matches!(error, LedgerError::NoHeader { .. }), "{page_bytes}: {error}");
    }
}

/// Goal: zeros, which some file systems leave after a power failure, are damage.
#[test]
fn zeros_are_damage() {
    let (bytes, sizes) = small();
    let operation = decode(&[&bytes[..sizes[4]], &[0; 4096][..]].concat()).unwrap();
    assert_known(&operation, 4);
    assert_eq!(operation.damage.unwrap().at_byte, sizes[4] as u64);
}

/// Goal: names and words are bytes. If they are UTF-8 the format is the old one, so that an older
/// nodeward reads it; otherwise the version requires a newer one.
#[test]
fn names_need_not_be_text() {
    let dir = tempfile::tempdir().unwrap();
    let store = LedgerStore::new(dir.path().to_owned(), StoreLimits::default());
    let version = |id: OperationId| fs::read(dir.path().join(format!("{id}.ledger"))).unwrap()[8];
    for (name, expected) in [(&b"db"[..], 1), (b"db\xff\n", 4)] {
        for in_command in [false, true] {
            let mut header = header(1);
            match in_command {
                true => header.command.push(name.into()),
                false => header.processes[0].name = name.into(),
            }
            let id = store.begin(&header).unwrap().id();
            assert_eq!(version(id), expected, "{name:?}");
            assert_eq!(store.read(id).unwrap().header, header);
        }
    }
}

/// Goal: a reader refuses another version and names both.
#[test]
fn another_version() {
    let (mut bytes, _) = small();
    bytes[8] = u8::try_from(VERSION + 1).unwrap();
    let error = decode(&bytes).unwrap_err().to_string();
    let versions = format!("version {} and this nodeward reads version {VERSION};", VERSION + 1);
    assert!(error.contains(&versions) && error.contains("1.ledger"), "{error}");
}

/// Goal: the origin and reason of an operation are read back, from a file whose version announces
/// them; one without them has the format of older readers.
#[test]
fn reasons_are_told() {
    let (dir, store) = store();
    let why = OperationCause {
        requested_by: "b".to_owned(),
        reason: "far".to_owned(),
        explanation: "3 s".to_owned(),
    };
    for (number, why) in [(1, Some(why)), (2, None)] {
        drop(store.begin_with_cause(&header(1), why.as_ref()).unwrap());
        let path = dir.path().join(format!("{number}.ledger"));
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes[8], if why.is_some() { 2 } else { 1 }, "the version");
        let operation = store.read(id(number)).unwrap();
        assert_eq!((operation.cause, operation.header), (why.clone(), header(1)));
        let listed = store.list().unwrap().remove(0).outline.unwrap();
        assert_eq!(listed.cause, why);
        // Kind 5, then three texts with their lengths.
        let expected = [&[5, 1][..], b"b", &[3], b"far", &[3], b"3 s"].concat();
        assert_eq!(bytes.ends_with(&expected), why.is_some());
    }
}

/// Goal: the bytes of version 1, so that no change to a type changes the format unnoticed. If this
/// fails, raise VERSION.
#[test]
fn the_bytes_of_this_version() {
    let (bytes, sizes) = small();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // Payloads follow the 12 bytes of their head; the magic and version are 12 bytes more.
    let payload = |n: usize| match n {
        0 => hex(&bytes[12 + 12..sizes[0]]),
        n => hex(&bytes[sizes[n - 1] + 12..sizes[n]]),
    };
    assert_eq!(hex(&bytes[..12]), format!("{}01000000", hex(b"nwledger")));
    let text = |text: &str| format!("{:02x}{}", text.len(), hex(text.as_bytes()));
    let process = |pid| format!("{pid}{}{}ac0207", text("db"), text("b0")); // 300 ticks: ac02
    let command = ["nodeward", "move", "1", "0", "1"].map(text).concat();
    let processes = format!("02{}{}", process("01"), process("02"));
    // Kind 0; 4096 is 8020 and 1000 is e807 as varints; undoes nothing.
    assert_eq!(payload(0), format!("008020e80705{command}{processes}00"));
    // Kind 1, ticket, process, one pair of nodes, 0 to 1, one run: page 1000, 4 of them.
    assert_eq!(payload(1), "01000001000101e80704");
    // Two pairs: 0 to 1 page 50, 2 of them; 2 to 1 page 60, 1 of them.
    assert_eq!(payload(2), "0101010200010132020201013c01");
    // Kind 2, ticket 1, a part: page 51 and page 60.
    assert_eq!(payload(3), "0201010200010133010201013c01");
    // Ticket 0, all of it.
    assert_eq!(payload(4), "020000");
    // Kind 4: 6 moved, 1 already there, one reason: the first (pinned) 2; not interrupted; 2000.
    assert_eq!(payload(6), "04060101000200d00f");
}

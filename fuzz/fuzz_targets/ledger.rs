//! Files of the ledger: any bytes are read or refused, never a panic. Behind a good header every
//! file tells something, also one whose checksums are right and whose records are not; and what it
//! tells are addresses that exist, each page once for each pair of nodes.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use nodeward_records::ledger::{LedgerError, MovedRun, MovedRuns, Operation};

/// A header of base pages of 4096 bytes, with one process and nothing else.
const HEADER: &[u8] = &[0, 0x80, 0x20, 0, 0, 1, 1, 0, 0, 0, 0, 0];

fn decode(bytes: &[u8]) -> Result<Operation, LedgerError> {
    let id = "1".parse().expect("a number");
    Operation::decode(id, Path::new("1.ledger"), bytes, false)
}

/// A record with right checksums.
fn framed(payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let mut head = [length.to_le_bytes(), crc32fast::hash(payload).to_le_bytes()].concat();
    head.extend(crc32fast::hash(&head).to_le_bytes());
    [&head, payload].concat()
}

/// Payloads, each behind a byte that tells its length.
fn payloads(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut payloads = Vec::new();
    while let Some((&length, rest)) = bytes.split_first() {
        let (payload, behind) = rest.split_at(usize::from(length).min(rest.len()));
        payloads.push(payload);
        bytes = behind;
    }
    payloads
}

fn check(runs: &MovedRuns) {
    let mut before: Option<MovedRun> = None;
    for run in runs.iter() {
        let end = |run: &MovedRun| run.start + run.pages * 4096;
        let same = before.filter(|before| (before.from, before.to) == (run.from, run.to));
        assert!(run.pages > 0 && end(&run) > run.start);
        assert!(same.is_none_or(|before| end(&before) < run.start));
        before = Some(run);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = decode(bytes);
    let records: Vec<u8> = payloads(bytes).into_iter().flat_map(framed).collect();
    let file = [b"nwledger\x01\0\0\0", &framed(HEADER)[..], &records].concat();
    let operation = decode(&file).expect("the header is good");
    for process in &operation.processes {
        check(&process.moved);
        check(&process.open);
    }
});

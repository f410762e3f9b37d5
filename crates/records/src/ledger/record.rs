//! The records of a ledger and their bytes.
//!
//! The order of variants and fields here, in `OperationEnd`'s account and its reasons, and in the
//! identity of a process determines the bytes: a change of it must raise [`VERSION`]. A test checks
//! them.

use std::io::Read;
use std::path::Path;

use nodeward_model::{Account, Name, ProcessIdentity, SkipReason};
use serde::{Deserialize, Serialize};

use super::moved_runs::PackedRuns;
use super::{Damage, LedgerError, OperationId};
use crate::frame::{FrameReader, RECORD_HEADER_BYTES, framed_value, number};

/// The latest version of the format. Each file is written in the first version that supports its
/// content, so that an older nodeward reads it if it can. There is no version 3: a single flipped
/// bit would turn it into another version.
pub const VERSION: u32 = 4;
/// The version from which a file may have a [`Why`].
const VERSION_WITH_CAUSE: u32 = 2;
const VERSION_FIRST: u32 = 1;

const MAGIC: &[u8; 8] = b"nwledger";
const PREAMBLE_BYTES: u64 = 12;

/// Room for the largest record of each kind that must still fit into a full ledger: the head, the
/// kind, then up to 10 bytes for each u64 and 1 for each flag, reason or short count.
pub(super) const SETTLED_BYTES_MAX: u64 = RECORD_HEADER_BYTES + 1 + 10 + 1;
pub(super) const INCOMPLETE_BYTES_MAX: u64 = RECORD_HEADER_BYTES + 1;
pub(super) const END_BYTES_MAX: u64 =
    RECORD_HEADER_BYTES + 1 + 2 * 10 + 1 + SkipReason::ALL.len() as u64 * 11 + 1 + 10;

/// The subject of an operation. Written before anything is moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The size of a base page in bytes (a power of two).
    pub page_bytes: u64,
    /// The start, in milliseconds after 1970 by the machine's clock.
    pub began_unix_ms: u64,
    /// The command and its arguments.
    pub command: Vec<Name>,
    /// The processes whose pages it moves; intents name them by index in this list.
    pub processes: Vec<ProcessIdentity>,
    /// The operation that it undoes, if any.
    pub undoes: Option<OperationId>,
}

/// The origin and the reason of an operation that no user typed. Written after the header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationCause {
    /// The origin, such as `balance`.
    pub requested_by: String,
    /// The name of the reason, as `nodeward explain` knows it.
    pub reason: String,
    /// The reason for people, with its numbers.
    pub explanation: String,
}

/// The end of an operation that was not killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationEnd {
    /// The account of the selected pages.
    pub account: Account,
    /// True if it was asked to stop early.
    pub interrupted: bool,
    /// The end, in milliseconds after 1970 by the machine's clock.
    pub ended_unix_ms: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Record {
    Header(Header),
    /// Pages that are about to be moved.
    Intent {
        ticket: u64,
        process: usize,
        runs: PackedRuns,
    },
    /// The pages of an intent that moved; `None` means all of them.
    Settled {
        ticket: u64,
        moved: Option<PackedRuns>,
    },
    /// The ledger may lack moves from here on.
    Incomplete,
    End(OperationEnd),
    /// Since version 2.
    Cause(OperationCause),
}

impl Record {
    /// Returns the record as it is in the file.
    pub(super) fn framed(&self) -> Vec<u8> {
        framed_value(self)
    }
}

/// Returns the first bytes of a file, up to and including its header and its reason.
pub(super) fn opening_bytes(header: &Header, why: Option<&OperationCause>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(version_for(header, why).to_le_bytes());
    bytes.extend(Record::Header(header.clone()).framed());
    bytes.extend(why.into_iter().flat_map(|why| Record::Cause(why.clone()).framed()));
    bytes
}

/// Before version 4 names and words had to be UTF-8.
fn version_for(header: &Header, why: Option<&OperationCause>) -> u32 {
    let names = header.processes.iter().map(|process| &process.name);
    match names.chain(&header.command).all(Name::is_text) {
        false => VERSION,
        true if why.is_some() => VERSION_WITH_CAUSE,
        true => VERSION_FIRST,
    }
}

/// Reads the records of a ledger.
pub(super) struct RecordReader<R>(FrameReader<R>);

impl<R: Read> RecordReader<R> {
    /// Checks the magic and the version.
    pub(super) fn open(input: R, path: &Path) -> Result<Self, LedgerError> {
        let mut records = FrameReader::new(input);
        let preamble =
            records.raw(PREAMBLE_BYTES).map_err(|error| LedgerError::read(path, error))?;
        let (magic, version) = preamble.split_at(preamble.len().min(MAGIC.len()));
        if !MAGIC.starts_with(magic) {
            return Err(LedgerError::NotALedger { path: path.to_owned() });
        }
        if preamble.len() as u64 != PREAMBLE_BYTES {
            let damage = Damage::new(0, "it is cut short");
            return Err(LedgerError::NoHeader { path: path.to_owned(), damage });
        }
        let found = number(version);
        if ![VERSION_FIRST, VERSION_WITH_CAUSE, VERSION].contains(&found) {
            return Err(LedgerError::OtherVersion { path: path.to_owned(), found, known: VERSION });
        }
        Ok(Self(records))
    }

    /// Returns the next record and its start; `None` at the end, and where a record is truncated.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Record)>, Damage> {
        self.0.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::framed;

    /// Goal: the reserved room is exactly enough for the largest records.
    #[test]
    fn the_last_records_have_room() {
        let bytes = |record: Record| record.framed().len() as u64;
        assert_eq!(bytes(Record::Settled { ticket: u64::MAX, moved: None }), SETTLED_BYTES_MAX);
        let skipped = SkipReason::ALL.map(|reason| (reason, u64::MAX)).into();
        let account = Account { moved: u64::MAX, already_there: u64::MAX, skipped };
        let end = OperationEnd { account, interrupted: true, ended_unix_ms: u64::MAX };
        assert_eq!(bytes(Record::End(end)), END_BYTES_MAX);
        assert_eq!(bytes(Record::Incomplete), INCOMPLETE_BYTES_MAX);
    }

    /// Goal: right checksums alone do not make a record valid.
    #[test]
    fn payloads_that_no_writer_writes() {
        let settled = [2, 9, 0]; // kind, ticket, all of it
        let read = |payload: &[u8]| {
            let file = [&MAGIC[..], &VERSION.to_le_bytes(), &framed(payload)].concat();
            RecordReader::open(&file[..], Path::new("1.ledger")).unwrap().next()
        };
        let record = read(&settled).unwrap().unwrap();
        assert!(matches!(record, (12, Record::Settled { ticket: 9, moved: None })));
        for wrong in [&settled[..2], &[2, 9, 0, 0], &[9, 9, 0], &[]] {
            assert_eq!(read(wrong).unwrap_err().at_byte, 12, "{wrong:?}");
        }
        // A list that claims 2^62 runs: serde reserves no more than 1 MiB for it.
        let claim = [1, 0, 0, 1, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f];
        assert_eq!(read(&claim).unwrap_err().at_byte, 12);
    }
}

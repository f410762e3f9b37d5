//! A file that grows by whole records.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use super::LedgerError;
use super::record::Record;

/// The target of records.
pub(super) trait Sink: Write {
    /// Truncates it to `bytes`; the next write continues there.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
}

impl Sink for File {
    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

/// Appends records, each with one write, until one fails.
pub(super) struct RecordLog<S> {
    sink: S,
    pub path: PathBuf,
    bytes: u64,
    failure: Option<LedgerError>,
}

impl<S: Sink> RecordLog<S> {
    /// Returns a log in an empty sink that continues at its end after a truncation (for files:
    /// `O_APPEND`).
    pub fn new(sink: S, path: PathBuf) -> Self {
        Self { sink, path, bytes: 0, failure: None }
    }

    /// Returns the bytes of whole records so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends one record or several.
    ///
    /// # Errors
    /// That of the write, and from then on the same one without another try.
    pub fn append(&mut self, framed: &[u8]) -> Result<(), LedgerError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        match self.sink.write_all(framed) {
            Ok(()) => self.bytes += framed.len() as u64,
            Err(source) => return Err(self.fail(source)),
        }
        Ok(())
    }

    /// Truncates a partly written record. The file then has a few bytes of its last block free,
    /// mostly enough for the record [`Record::Incomplete`].
    fn fail(&mut self, source: io::Error) -> LedgerError {
        let is_cut = self.sink.truncate(self.bytes).is_ok();
        let last_words = Record::Incomplete.framed();
        if is_cut && self.bytes > 0 && self.sink.write_all(&last_words).is_err() {
            // If this fails too, the reader drops the truncated record.
            let _ = self.sink.truncate(self.bytes);
        }
        let failure = LedgerError::Write { path: self.path.clone(), source: source.into() };
        self.failure.insert(failure).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with little room that counts its calls.
    struct BoundedSink {
        bytes: Vec<u8>,
        room: usize,
        calls: usize,
    }

    impl Write for BoundedSink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            let fits = bytes.len().min(self.room - self.bytes.len());
            self.bytes.extend(&bytes[..fits]);
            if fits == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(fits) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink for BoundedSink {
        fn truncate(&mut self, bytes: u64) -> io::Result<()> {
            self.bytes.truncate(bytes.try_into().unwrap());
            Ok(())
        }
    }

    /// Goal: wherever the disk becomes full, the file has whole records, then the record that
    /// something is missing if there is room, and the error stays the same without another try.
    #[test]
    fn a_full_disk_leaves_whole_records() {
        let record = [b'x'; 30];
        let missing = Record::Incomplete.framed(); // 13 bytes
        for room in 0..100 {
            let sink = BoundedSink { bytes: Vec::new(), room, calls: 0 };
            let mut log = RecordLog::new(sink, "12.ledger".into());
            let whole = (0..4).take_while(|_| log.append(&record).is_ok()).count();
            assert_eq!(whole, room / 30);
            let says_so = whole > 0 && room % 30 >= 13;
            let expected = [&record.repeat(whole), &missing[..if says_so { 13 } else { 0 }]];
            assert_eq!(log.sink.bytes, expected.concat(), "{room}");
            let calls = log.sink.calls;
            let again = log.append(&record).unwrap_err();
            assert!(matches!(again, LedgerError::Write { ref source, .. }
                if source.kind() == io::ErrorKind::StorageFull));
            assert_eq!((log.sink.calls, log.bytes), (calls, 30 * whole as u64));
        }
    }

    /// Goal: the same with the kernel's ENOSPC, on a file that cannot even be truncated.
    #[test]
    fn a_device_that_is_always_full() {
        let full = File::options().append(true).open("/dev/full").unwrap();
        let mut log = RecordLog::new(full, "/dev/full".into());
        for _ in 0..2 {
            let error = log.append(b"record").unwrap_err();
            assert_eq!(error.to_string(), "cannot write /dev/full; free space there");
        }
    }
}

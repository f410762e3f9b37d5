//! Sources of accesses; the content of a source tells its format.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::counts::CountReader;
use crate::lines::LineReader;
use crate::peek::{self, PeekedSource};
use crate::perf_data::PerfData;
use crate::perf_text::PerfText;
use crate::{Error, counts, perf_data, perf_text};

/// The bytes of a file that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Accesses to pages, from one of three formats.
#[derive(Debug)]
pub enum SampleFormat<R> {
    /// Lines `ADDRESS NODE [COUNT]`.
    Counts(CountReader<R>),
    /// The output of `perf script`.
    PerfText(PerfText<R>),
    /// The file of `perf record`.
    PerfData(PerfData<R>),
}

/// A file or standard input.
pub type SampleInput = Box<dyn BufRead + Send>;

/// Opens a file for any reader of this crate; `-` is standard input.
pub fn open_input(path: &Path) -> Result<SampleInput, Error> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin())));
    }
    let file = File::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, file)))
}

/// Opens a source of accesses in any of the formats; `-` is standard input.
pub fn open(path: &Path) -> Result<SampleFormat<PeekedSource<SampleInput>>, Error> {
    detect(open_input(path)?)
}

/// Detects the format of a source by its first bytes, and by its first line with content: a line of
/// perf has a `[` or a `:`, a line of counts does not. An empty source has no counts.
pub fn detect<R: BufRead>(source: R) -> Result<SampleFormat<PeekedSource<R>>, Error> {
    let source = peek::peek(source)?;
    if perf_data::is_perf_data(peek::peeked_bytes(&source)) {
        return perf_data::read(source).map(SampleFormat::PerfData);
    }
    if !peek::is_text(&source) {
        return Err(Error::Unknown);
    }
    let mut lines = LineReader::new(source);
    while lines.advance()? {
        if !lines.content().is_empty() {
            lines.unread();
            break;
        }
    }
    let is_of_perf = lines.content().iter().any(|byte| matches!(byte, b'[' | b':'));
    Ok(match is_of_perf {
        true => SampleFormat::PerfText(perf_text::from_lines(lines)),
        false => SampleFormat::Counts(counts::from_lines(lines)),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn format(bytes: &[u8]) -> Result<&'static str, Error> {
        detect(bytes).map(|source| match source {
            SampleFormat::Counts(_) => "counts",
            SampleFormat::PerfText(_) => "text of perf",
            SampleFormat::PerfData(_) => "perf.data",
        })
    }

    #[test]
    fn each_format_is_known_by_its_content() {
        assert_eq!(format(b"").unwrap(), "counts");
        assert_eq!(format(b"# page node\n\n7f00 1\n").unwrap(), "counts");
        assert_eq!(format(b"hello\n").unwrap(), "counts");
        for name in ["faults.txt", "chains.txt", "faults-two.txt", "faults-default.txt"] {
            assert_eq!(format(&fixture(name)).unwrap(), "text of perf", "{name}");
        }
        for name in ["faults.data", "faults-pipe.data", "faults-zstd.data"] {
            assert_eq!(format(&fixture(name)).unwrap(), "perf.data", "{name}");
        }
        assert!(matches!(format(&fixture_of_format_1()), Err(Error::PerfVersion)));
        assert!(matches!(format(b"\x7fELF\x02\x01"), Err(Error::Unknown)));
        assert!(matches!(format(b"PERF\0"), Err(Error::Unknown)));
    }

    fn fixture_of_format_1() -> Vec<u8> {
        [&b"PERFFILE"[..], &fixture("faults.data")[8..]].concat()
    }

    fn fixture(name: &str) -> Vec<u8> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/perf");
        fs::read(directory.join(name)).unwrap()
    }

    #[test]
    fn a_long_header_of_perf_is_read_over() {
        let header = format!("# cmdline : {}\n#\n", "x ".repeat(10_000));
        let text = [header.as_bytes(), &fixture("faults.txt")].concat();
        let SampleFormat::PerfText(samples) = detect(&text[..]).unwrap() else {
            panic!("no samples")
        };
        assert_eq!(samples.filter(Result::is_ok).count(), 49);
    }

    #[test]
    fn the_first_line_is_not_lost_and_keeps_its_number() {
        let SampleFormat::Counts(counts) = detect(&b"#\n7f00 1 2\n"[..]).unwrap() else { panic!() };
        assert_eq!(counts.map(|access| access.unwrap().count).collect::<Vec<_>>(), [2]);
        let SampleFormat::Counts(mut counts) = detect(&b"#\nhello\n"[..]).unwrap() else {
            panic!()
        };
        let error = counts.next().unwrap().unwrap_err().to_string();
        assert!(error.starts_with("line 2: expected ADDRESS NODE [COUNT]"), "{error}");
    }

    #[test]
    fn a_file_is_opened_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hot");
        let error = open(&path).err().unwrap().to_string();
        assert!(error.starts_with("cannot open ") && error.contains("hot"), "{error}");
        fs::write(&path, "7f00 1\n").unwrap();
        assert!(matches!(open(&path), Ok(SampleFormat::Counts(_))));
        assert!(matches!(open(directory.path()), Err(Error::Read(_))), "a directory");
    }

    proptest! {
        #[test]
        fn anything_is_some_format_or_refused(
            bytes in proptest::collection::vec(0..128_u8, 0..99),
        ) {
            match detect(&bytes[..]) {
                Ok(SampleFormat::Counts(counts)) => drop(counts.last()),
                Ok(SampleFormat::PerfText(samples)) => drop(samples.last()),
                Ok(SampleFormat::PerfData(samples)) => drop(samples.last()),
                Err(error) => prop_assert!(matches!(error, Error::Unknown)),
            }
        }
    }
}

//! Frames on the serial port between host and guest: one tag byte, a length, a payload.
//!
//! The order of a run: guest `Ready`; host any number of `Files` (one tar stream in pieces), then
//! `Run`; guest any number of `Stdout` and `Stderr`, then `Exit` or `Failed`. If the request has
//! input, the host sends `Stdin` and `Resize` frames meanwhile.

use std::io::{Error, ErrorKind, Read, Result, Write};

use serde::{Deserialize, Serialize};

/// The version of this protocol; the guest sends it in [`Frame::Ready`].
pub const VERSION: u32 = 2;

/// The name of the serial port as the guest sees it.
pub const PORT_NAME: &str = "nodeward.lab";

/// Maximum length of a payload in bytes; a frame that claims more is invalid.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// Number of bytes of tag and payload length.
const HEADER_BYTES: usize = 5;

/// A command for the guest, with its environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    /// Variables set for the program, over the guest's own few.
    pub env: Vec<(String, String)>,
    /// The host's time in nanoseconds since 1970, because a restored guest's clock is behind.
    pub now_ns: u64,
    /// Random bytes from the host, because all guests restored from one snapshot have the same
    /// entropy pool.
    pub seed: Vec<u8>,
    /// The program's standard input.
    pub input: Input,
}

/// The standard input of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// Empty input.
    #[default]
    Nothing,
    /// A pipe with the host's input.
    Stream,
    /// A terminal of this size, which is its standard output and error, too.
    Terminal(TerminalSize),
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Number of rows.
    pub rows: u16,
    /// Number of columns.
    pub columns: u16,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The guest is up, and uses this version.
    Ready(u32),
    /// A piece of a tar stream, unpacked at the guest's root.
    Files(Vec<u8>),
    /// All files have been sent; run this request.
    Run(Request),
    /// The program wrote this to its standard output.
    Stdout(Vec<u8>),
    /// The program wrote this to its standard error.
    Stderr(Vec<u8>),
    /// The program ended with this code; a signal counts as 128 plus its number.
    Exit(i32),
    /// The guest could not carry out the request, for this reason.
    Failed(String),
    /// Input for the program; empty data is its end.
    Stdin(Vec<u8>),
    /// The host's terminal has changed its size.
    Resize(TerminalSize),
}

impl Frame {
    fn tag(&self) -> u8 {
        match self {
            Self::Ready(_) => 1,
            Self::Files(_) => 2,
            Self::Run(_) => 3,
            Self::Stdout(_) => 4,
            Self::Stderr(_) => 5,
            Self::Exit(_) => 6,
            Self::Failed(_) => 7,
            Self::Stdin(_) => 8,
            Self::Resize(_) => 9,
        }
    }

    fn payload(&self) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Ready(version) => version.to_le_bytes().to_vec(),
            Self::Files(bytes) | Self::Stdout(bytes) | Self::Stderr(bytes) | Self::Stdin(bytes) => {
                bytes.clone()
            }
            Self::Run(request) => serde_json::to_vec(request)?,
            Self::Resize(size) => serde_json::to_vec(size)?,
            Self::Exit(code) => code.to_le_bytes().to_vec(),
            Self::Failed(why) => why.clone().into_bytes(),
        })
    }

    fn parse(tag: u8, payload: Vec<u8>) -> Result<Self> {
        Ok(match tag {
            1 => Self::Ready(u32::from_le_bytes(four(&payload)?)),
            2 => Self::Files(payload),
            3 => Self::Run(serde_json::from_slice(&payload)?),
            4 => Self::Stdout(payload),
            5 => Self::Stderr(payload),
            6 => Self::Exit(i32::from_le_bytes(four(&payload)?)),
            7 => Self::Failed(String::from_utf8(payload).map_err(|_| garbage("text"))?),
            8 => Self::Stdin(payload),
            9 => Self::Resize(serde_json::from_slice(&payload)?),
            _ => return Err(garbage("tag")),
        })
    }

    /// Writes the frame in one piece. Fails with `InvalidInput` above [`PAYLOAD_BYTES_MAX`].
    pub fn write_to(&self, out: &mut impl Write) -> Result<()> {
        let payload = self.payload()?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Error::new(ErrorKind::InvalidInput, "a frame of more than 1 MiB"));
        }
        let length = u32::try_from(payload.len()).map_err(Error::other)?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.push(self.tag());
        bytes.extend(length.to_le_bytes());
        bytes.extend(payload);
        out.write_all(&bytes)
    }

    /// Reads one frame. Fails with `UnexpectedEof` when the stream ends, and with `InvalidData` on
    /// an invalid frame.
    pub fn read_from(input: &mut impl Read) -> Result<Self> {
        let mut header = [0; HEADER_BYTES];
        input.read_exact(&mut header)?;
        let [tag, length @ ..] = header;
        let length = u32::from_le_bytes(length) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(garbage("length"));
        }
        let mut payload = vec![0; length];
        input.read_exact(&mut payload)?;
        Self::parse(tag, payload)
    }
}

fn four(payload: &[u8]) -> Result<[u8; 4]> {
    payload.try_into().map_err(|_| garbage("number"))
}

fn garbage(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("a frame whose {what} makes no sense"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..300)
    }

    fn request() -> impl Strategy<Value = Request> {
        let words = prop::collection::vec(".*", 0..4);
        let env = prop::collection::vec(("[A-Z]+", ".*"), 0..3);
        (words, env, any::<u64>(), bytes(), input())
            .prop_map(|(argv, env, now_ns, seed, input)| Request { argv, env, now_ns, seed, input })
    }

    fn size() -> impl Strategy<Value = TerminalSize> {
        any::<(u16, u16)>().prop_map(|(rows, columns)| TerminalSize { rows, columns })
    }

    fn input() -> impl Strategy<Value = Input> {
        prop_oneof![Just(Input::Nothing), Just(Input::Stream), size().prop_map(Input::Terminal)]
    }

    fn frame() -> impl Strategy<Value = Frame> {
        prop_oneof![
            any::<u32>().prop_map(Frame::Ready),
            bytes().prop_map(Frame::Files),
            request().prop_map(Frame::Run),
            bytes().prop_map(Frame::Stdout),
            bytes().prop_map(Frame::Stderr),
            any::<i32>().prop_map(Frame::Exit),
            ".*".prop_map(Frame::Failed),
            bytes().prop_map(Frame::Stdin),
            size().prop_map(Frame::Resize),
        ]
    }

    fn written(frame: &Frame) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame.write_to(&mut bytes).unwrap();
        bytes
    }

    proptest! {
        #[test]
        fn frames_come_back_in_order(frames in prop::collection::vec(frame(), 1..5)) {
            let all: Vec<u8> = frames.iter().flat_map(written).collect();
            let mut input = all.as_slice();
            for frame in frames {
                prop_assert_eq!(Frame::read_from(&mut input).unwrap(), frame);
            }
            prop_assert!(input.is_empty());
        }

        #[test]
        fn a_cut_frame_is_an_early_end(frame in frame(), cut in any::<prop::sample::Index>()) {
            let bytes = written(&frame);
            let mut input = &bytes[..cut.index(bytes.len())];
            let why = Frame::read_from(&mut input).unwrap_err();
            prop_assert_eq!(why.kind(), ErrorKind::UnexpectedEof);
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Frame::read_from(&mut bytes.as_slice());
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (bytes, told) in [
            (&[10, 0, 0, 0, 0][..], "tag"),
            (&[4, 1, 0, 16, 0], "length"), // 1 MiB and one byte
            (&[6, 1, 0, 0, 0, 7], "number"),
            (&[7, 1, 0, 0, 0, 0xff], "text"),
        ] {
            let why = Frame::read_from(&mut &*bytes).unwrap_err();
            assert_eq!(why.kind(), ErrorKind::InvalidData);
            assert!(why.to_string().contains(told), "{why}");
        }
    }

    #[test]
    fn a_frame_that_nobody_would_read_is_not_written() {
        let frame = Frame::Stdout(vec![0; PAYLOAD_BYTES_MAX + 1]);
        let why = frame.write_to(&mut Vec::new()).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::InvalidInput);
    }
}

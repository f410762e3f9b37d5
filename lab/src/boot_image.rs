//! Extracts the kernel proper from its boot image, so that the guest need not unpack it at every
//! boot.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use lz4_flex::frame::FrameDecoder;

/// Offsets of the boot protocol, in bytes from the start of the image.
const SETUP_SECTORS: usize = 0x1f1;
const SIGNATURE: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const SECTOR: usize = 512;
/// The build appends the unpacked length to the payload, as four bytes that no tool expects.
const LENGTH_BYTES: usize = 4;

/// Writes the kernel in `image` as an ELF file to `out`. Fails if it is not a boot image.
pub fn extract_kernel(image: &Path, out: &File) -> Result<()> {
    let bytes = std::fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    let payload = payload(&bytes).with_context(|| format!("in {}", image.display()))?;
    decompress(payload, out).with_context(|| format!("cannot unpack {}", image.display()))?;
    let mut start = [0; 4];
    let mut out = out;
    out.seek(SeekFrom::Start(0))?;
    out.read_exact(&mut start)?;
    ensure!(&start == b"\x7fELF", "{} does not hold an ELF kernel", image.display());
    Ok(())
}

fn payload(image: &[u8]) -> Result<&[u8]> {
    let signed = image.get(SIGNATURE..SIGNATURE + 4) == Some(b"HdrS".as_slice());
    ensure!(signed, "not a kernel's boot image");
    let sectors = match image[SETUP_SECTORS] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * SECTOR + number(image, PAYLOAD_OFFSET)?;
    let end = start + number(image, PAYLOAD_LENGTH)?;
    let payload = image.get(start..end.saturating_sub(LENGTH_BYTES));
    payload.context("the boot image is cut off")
}

fn number(image: &[u8], at: usize) -> Result<usize> {
    let bytes = image.get(at..at + 4).context("the boot image is cut off")?;
    Ok(u32::from_le_bytes(bytes.try_into()?) as usize)
}

/// The compression method of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    /// Unpacked by a program of the host.
    Tool(&'static str),
    /// Unpacked here: few hosts have a program for it.
    Lz4,
}

fn compression(payload: &[u8]) -> Result<Compression> {
    Ok(match payload {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Tool("zstd"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Tool("xz"),
        [0x1f, 0x8b, ..] => Compression::Tool("gzip"),
        [0x02, 0x21, 0x4c, 0x18, ..] => Compression::Lz4,
        _ => bail!("a compression other than zstd, xz, gzip or lz4"),
    })
}

fn decompress(payload: &[u8], mut out: &File) -> Result<()> {
    match compression(payload)? {
        Compression::Tool(tool) => run_tool(tool, payload, out),
        Compression::Lz4 => {
            std::io::copy(&mut FrameDecoder::new(payload), &mut out)?;
            Ok(())
        }
    }
}

fn run_tool(tool: &str, payload: &[u8], out: &File) -> Result<()> {
    let mut child = Command::new(tool)
        .args(["-d", "-c"])
        .stdin(Stdio::piped())
        .stdout(out.try_clone()?)
        .spawn()
        .with_context(|| format!("cannot run {tool}: install it"))?;
    let mut stdin = child.stdin.take().context("no pipe")?;
    let written = stdin.write_all(payload);
    drop(stdin);
    ensure!(child.wait()?.success(), "{tool} failed");
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2 * SECTOR];
        image[SETUP_SECTORS] = 1;
        image[SIGNATURE..SIGNATURE + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&16u32.to_le_bytes());
        let length = u32::try_from(payload.len() + LENGTH_BYTES).unwrap();
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend([0; 16]);
        image.extend(payload);
        image.extend(length.to_le_bytes());
        image
    }

    #[test]
    fn finds_the_payload_and_leaves_the_length_off() {
        let image = image(&[0x1f, 0x8b, 1, 2, 3]);
        let payload = payload(&image).unwrap();
        assert_eq!(payload, [0x1f, 0x8b, 1, 2, 3]);
        assert_eq!(compression(payload).unwrap(), Compression::Tool("gzip"));
    }

    #[test]
    fn what_is_no_image_is_refused() {
        assert!(payload(b"\x7fELF").unwrap_err().to_string().contains("not a kernel"));
        let mut cut = image(&[0x1f, 0x8b, 1]);
        cut.truncate(2 * SECTOR + 16);
        assert!(payload(&cut).unwrap_err().to_string().contains("cut off"));
        assert!(compression(b"plain").is_err());
    }
}

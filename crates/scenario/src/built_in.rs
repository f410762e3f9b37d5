//! The scenarios that come along, and finding others.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};

use crate::error::{Error, Fault, Place};
use crate::near;
use crate::tree::TEXT_BYTES_MAX;

/// The scenarios of a list, by the names of their files.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        /// The scenarios that come along: names and texts.
        pub const BUILT_IN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../scenarios/", $name, ".toml")))),*];
    };
}

built_in! {
    "two-nodes",
    "four-nodes-hole",
    "cpuless",
    "memoryless",
    "asymmetric",
    "two-socket",
    "sixteen-nodes",
    "ping-pong",
    "compile",
    "loopback",
    "cxl-tier",
    "page-fault",
    "page-migration-2017",
    "tlb-2023",
    "tlb-2023-arm64",
    "home-2012",
    "wide-2004",
}

/// The text of a scenario, by name or path.
pub(crate) fn text(name_or_path: &str) -> Result<Cow<'static, str>, Error> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
        return Ok(Cow::Borrowed(text));
    }
    read(name_or_path).map(Cow::Owned).map_err(|error| {
        let names: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        let expected = format!("the path of a file, or {}", near::one_of(name_or_path, &names));
        Fault::new(&Place::File, format!("no such scenario ({error})"), expected).of(name_or_path)
    })
}

/// A file's text; of an endless one, enough to be refused as too long.
fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

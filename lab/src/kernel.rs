//! Selection of a guest's kernel, and of the archive's version for it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A kernel by name; its version follows the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestKernel {
    /// The latest of Debian 11's 5.10.
    V5_10,
    /// The latest of Debian 12's 6.1.
    V6_1,
    /// The latest 6.12: Debian 13's, or the backport of it.
    V6_12,
    /// The newest that Debian carries, backports and unstable included.
    Newest,
    /// A user's boot image or ELF kernel, with virtio_pci and virtio_console built in.
    Image(PathBuf),
}

impl GuestKernel {
    /// The kernels from Debian's archive, oldest first.
    pub const DEBIAN: [Self; 4] = [Self::V5_10, Self::V6_1, Self::V6_12, Self::Newest];

    /// Returns the prefix of all versions of this kernel; `None` for a user's own.
    pub(crate) fn prefix(&self) -> Option<&'static str> {
        match self {
            Self::V5_10 => Some("5.10."),
            Self::V6_1 => Some("6.1."),
            Self::V6_12 => Some("6.12."),
            Self::Newest => Some(""),
            Self::Image(_) => None,
        }
    }
}

impl fmt::Display for GuestKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V5_10 => f.write_str("5.10"),
            Self::V6_1 => f.write_str("6.1"),
            Self::V6_12 => f.write_str("6.12"),
            Self::Newest => f.write_str("newest"),
            Self::Image(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for GuestKernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Self::DEBIAN.into_iter().find(|kernel| kernel.to_string() == text) {
            Some(kernel) => Ok(kernel),
            None if text.contains('/') => Ok(Self::Image(text.into())),
            None => {
                Err("give 5.10, 6.1, 6.12, newest, or the path of an image (with a slash)".into())
            }
        }
    }
}

/// Returns the latest version with a prefix; release candidates do not count.
pub(crate) fn latest<'a>(versions: &'a [String], prefix: &str) -> Option<&'a String> {
    let fitting = versions.iter().filter(|version| version.starts_with(prefix));
    fitting.filter(|version| !version.contains("~rc")).max_by_key(|version| numbers(version))
}

/// Returns the numbers in a version, which order kernels.
pub(crate) fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_the_latest_of_each_line() {
        let versions = [
            "7.3.4-1~bpo13+1",
            "7.4~rc1-1~exp1",
            "7.2.13-1",
            "6.12.95-1~bpo12+1",
            "6.12.107-1",
            "6.1.176-1",
            "6.1.99-1",
            "5.10.223-1",
        ]
        .map(str::to_owned);
        assert_eq!(latest(&versions, "6.1.").unwrap(), "6.1.176-1");
        assert_eq!(latest(&versions, "6.12.").unwrap(), "6.12.107-1");
        assert_eq!(latest(&versions, "").unwrap(), "7.3.4-1~bpo13+1");
        assert_eq!(latest(&versions, "5.10.").unwrap(), "5.10.223-1");
        assert_eq!(latest(&versions, "5.4."), None);
    }

    #[test]
    fn names_parse_back() {
        for kernel in GuestKernel::DEBIAN {
            assert_eq!(kernel.to_string().parse(), Ok(kernel));
        }
        assert_eq!("./bzImage".parse(), Ok(GuestKernel::Image("./bzImage".into())));
        assert!("6.13".parse::<GuestKernel>().unwrap_err().contains("6.12"));
    }
}

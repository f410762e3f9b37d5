//! The figures of `bench pager`, by name, with the measurements that each needs.

use std::str::FromStr;

use nodeward_pager::PageSize;
use nodeward_proof::{BenchRow, Column, Extra};
use serde_json::{Value, json};

use super::rounded;

/// A page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSizeValue(pub PageSize);

impl FromStr for PageSizeValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "4k" => Ok(Self(PageSize::Base)),
            "2m" => Ok(Self(PageSize::Huge)),
            _ => Err("expected 4k or 2m".to_owned()),
        }
    }
}

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagerFigure {
    /// Words that were lost or torn during a move of a given size.
    LostWords,
    /// A number of one row.
    OfRow(PageSize, RowFigure),
}

/// A figure of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFigure {
    /// The ratio to memcpy with this number of threads.
    Ratio(Column, u32),
    /// The time as a multiple of that of the kernel's calls alone, with this number of threads.
    Limit(Column, u32),
    /// The least part of its speed that the writer keeps.
    WriterRate,
    /// Lazy relative to eager.
    Lazy,
    /// Base pages that arrive as huge pages, relative to base pages.
    HugeArrival,
    /// The same where there are no huge pages.
    HugeFallback,
    /// The 99th percentile of waits under a stall budget, in milliseconds.
    StallP99,
    /// Two lanes relative to one.
    Lanes,
    /// Number of additional mappings.
    Vmas,
    /// Speed relative to the kernel: recycled, one-way, or as the pager chooses.
    VsKernel(&'static str),
}

impl FromStr for PagerFigure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "lost" {
            return Ok(Self::LostWords);
        }
        let of = |(page, what): (&str, &str)| {
            let PageSizeValue(page) = page.parse().ok()?;
            Some(Self::OfRow(page, what.parse().ok()?))
        };
        text.split_once('-').and_then(of).ok_or_else(|| {
            "expected `lost`, or `4k-` or `2m-` and one of one-way-N, recycled-writer-N, \
             recycled-alone-N, these with -limit, writer-rate, lazy, huge, huge-without, \
             stall-p99, lanes, vmas, vs-kernel-recycled, vs-kernel-one-way, vs-kernel-auto"
                .to_owned()
        })
    }
}

impl FromStr for RowFigure {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "writer-rate" => Self::WriterRate,
            "lazy" => Self::Lazy,
            "huge" => Self::HugeArrival,
            "huge-without" => Self::HugeFallback,
            "stall-p99" => Self::StallP99,
            "lanes" => Self::Lanes,
            "vmas" => Self::Vmas,
            "vs-kernel-recycled" => Self::VsKernel("recycled"),
            "vs-kernel-one-way" => Self::VsKernel("one-way"),
            "vs-kernel-auto" => Self::VsKernel("auto"),
            _ => match text.strip_suffix("-limit") {
                None => cell(text).map(|(column, lanes)| Self::Ratio(column, lanes))?,
                Some(text) => cell(text).map(|(column, lanes)| Self::Limit(column, lanes))?,
            },
        })
    }
}

/// Parses the name of a cell: its column and the number of threads.
fn cell(text: &str) -> Result<(Column, u32), ()> {
    let (column, lanes) = text.rsplit_once('-').ok_or(())?;
    let lanes = lanes.parse().ok().filter(|lanes| (1..=1024).contains(lanes));
    Ok((self::column(column).ok_or(())?, lanes.ok_or(())?))
}

fn column(name: &str) -> Option<Column> {
    match name {
        "one-way" => Some(Column::OneWay),
        "recycled-writer" => Some(Column::RecycledWriter),
        "recycled-alone" => Some(Column::RecycledAlone),
        _ => None,
    }
}

impl RowFigure {
    /// Returns the columns, the numbers of threads and the extra measurements that it needs.
    pub fn needs(self) -> (Vec<Column>, Vec<u32>, Vec<Extra>) {
        match self {
            Self::Ratio(column, lanes) | Self::Limit(column, lanes) => {
                (vec![column], vec![lanes], Vec::new())
            }
            Self::WriterRate => (vec![Column::RecycledWriter], vec![1, 2], Vec::new()),
            Self::Lazy => (Vec::new(), vec![1], vec![Extra::Lazy]),
            Self::HugeArrival | Self::HugeFallback => (Vec::new(), vec![1], vec![Extra::Huge]),
            Self::StallP99 => (Vec::new(), vec![2], vec![Extra::Stall]),
            Self::Lanes => (Vec::new(), vec![2], vec![Extra::Lanes]),
            Self::Vmas => (Vec::new(), vec![2], vec![Extra::Vmas]),
            Self::VsKernel(_) => (Vec::new(), vec![2], vec![Extra::Kernel]),
        }
    }

    /// Returns the number with its context; `None` if it could not be measured here.
    pub fn value(self, row: &BenchRow) -> Option<Value> {
        let (number, unit) = match self {
            Self::Ratio(..) => (row.cells.first()?.ratio, None),
            Self::Limit(..) => (row.cells.first()?.bare.as_ref()?.ratio, None),
            Self::WriterRate => {
                let shares = row.cells.iter().filter_map(|cell| cell.writer);
                (shares.map(|writer| writer.share).min_by(f64::total_cmp)?, None)
            }
            Self::Lazy => (row.lazy.as_ref()?.ratio, None),
            Self::HugeArrival => (row.huge_arrival.as_ref()?.kept.of_huge_pages()?, None),
            Self::HugeFallback => (row.huge_arrival.as_ref()?.without.ratio, None),
            Self::StallP99 => (row.stall.as_ref()?.stalls.waits.p99_ns as f64 / 1e6, Some("ms")),
            Self::Lanes => (row.lanes.as_ref()?.ratio, None),
            Self::Vmas => (row.vmas?.more as f64, None),
            Self::VsKernel(supply) => {
                (row.kernel.iter().find(|cell| cell.supply == supply)?.ratio, None)
            }
        };
        let mut told = json!({ "measured": rounded(number), "row": row });
        if let Some(unit) = unit {
            told["unit"] = json!(unit);
        }
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every name that SPEC.md uses is valid, and has the documented meaning.
    #[test]
    fn figures_have_names() {
        let of = |text: &str| text.parse::<PagerFigure>();
        let ratio = RowFigure::Ratio(Column::RecycledWriter, 2);
        assert_eq!(of("4k-recycled-writer-2"), Ok(PagerFigure::OfRow(PageSize::Base, ratio)));
        let limit = RowFigure::Limit(Column::RecycledAlone, 2);
        let told = of("4k-recycled-alone-2-limit");
        assert_eq!(told, Ok(PagerFigure::OfRow(PageSize::Base, limit)));
        let ratio = RowFigure::Ratio(Column::OneWay, 16);
        assert_eq!(of("2m-one-way-16"), Ok(PagerFigure::OfRow(PageSize::Huge, ratio)));
        assert_eq!(of("4k-lazy"), Ok(PagerFigure::OfRow(PageSize::Base, RowFigure::Lazy)));
        let huge = PagerFigure::OfRow(PageSize::Base, RowFigure::HugeArrival);
        assert_eq!(of("4k-huge"), Ok(huge));
        assert_eq!(of("lost"), Ok(PagerFigure::LostWords));
    }

    #[test]
    fn other_names_are_refused() {
        for text in
            ["", "4k", "4k-", "8k-lazy", "4k-one-way", "4k-one-way-0", "4k-one-way-x", "4k-limit"]
        {
            assert!(text.parse::<PagerFigure>().unwrap_err().contains("expected"), "{text}");
        }
    }
}

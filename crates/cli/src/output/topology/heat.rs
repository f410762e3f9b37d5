//! The distances drawn as shades: the darker, the farther.

use nodeward_model::topology::{Distances, Topology};

use super::charset::Charset;

/// Cells from near to far, each three columns wide.
const UNICODE: [&str; 4] = [" ░░", " ▒▒", " ▓▓", " ██"];
const ASCII: [&str; 4] = ["  .", "  :", "  +", "  #"];

/// Maximum number of named asymmetric pairs; further ones are counted.
const PAIRS_NAMED_MAX: usize = 4;

/// Draws the distances; empty if there is nothing to compare.
pub(super) fn map(topology: &Topology, charset: Charset) -> String {
    let Some(distances) = topology.distances.as_ref().filter(|d| d.nodes().len() > 1) else {
        return String::new();
    };
    let scale = ShadeScale::new(distances, charset);
    let head: String = distances.nodes().iter().map(|id| format!("{:>3}", id.0)).collect();
    let mut text = format!("how far, from row to column: {}\n    {head}\n", scale.legend());
    for (position, (id, row)) in distances.rows().enumerate() {
        let cells = row.iter().enumerate();
        let cell = |(to, &far)| if to == position { scale.here() } else { scale.shade(far) };
        text += &format!("{:>4}{}\n", id.0, cells.map(cell).collect::<String>());
    }
    text + &asymmetry(distances)
}

/// Assignment of distances to shades, from near to far: one shade each while there are few
/// distances, else equal parts of the range.
struct ShadeScale {
    ranges: Vec<(u32, u32, &'static str)>,
    charset: Charset,
}

impl ShadeScale {
    fn new(distances: &Distances, charset: Charset) -> Self {
        let shades = match charset {
            Charset::Unicode => UNICODE,
            Charset::Ascii => ASCII,
        };
        let mut values: Vec<u32> = distances.remote().collect();
        values.sort_unstable();
        values.dedup();
        let (near, far) = (values[0], values[values.len() - 1]);
        let part = |value: u32| match values.len() {
            0..=4 => rank(&values, value) * 3 / (values.len() - 1).max(1),
            _ => u64::from(value - near) as usize * 4 / ((far - near) as usize + 1),
        };
        let shared = values.chunk_by(|&a, &b| part(a) == part(b));
        let range = |chunk: &[u32]| (chunk[0], chunk[chunk.len() - 1], shades[part(chunk[0])]);
        Self { ranges: shared.map(range).collect(), charset }
    }

    fn shade(&self, distance: u32) -> &'static str {
        let fits = |&&(near, far, _): &&(u32, u32, &str)| near <= distance && distance <= far;
        self.ranges.iter().find(fits).map_or("  ?", |&(_, _, shade)| shade)
    }

    fn here(&self) -> &'static str {
        match self.charset {
            Charset::Unicode => "  ·",
            Charset::Ascii => "  -",
        }
    }

    fn legend(&self) -> String {
        let part = |&(near, far, shade): &(u32, u32, &str)| match near == far {
            true => format!("{} {near}", shade.trim()),
            false => format!("{} {near}-{far}", shade.trim()),
        };
        self.ranges.iter().map(part).collect::<Vec<_>>().join("  ")
    }
}

fn rank(values: &[u32], value: u32) -> usize {
    values.partition_point(|&other| other < value)
}

/// Names the pairs of nodes with different distances in both directions; empty if there are none.
fn asymmetry(distances: &Distances) -> String {
    let rows: Vec<_> = distances.rows().collect();
    let mut pairs = Vec::new();
    for (a, &(from, row)) in rows.iter().enumerate() {
        for (b, &(to, back)) in rows.iter().enumerate().skip(a + 1) {
            if row[b] != back[a] {
                pairs.push(format!("{from}>{to} {} but {to}>{from} {}", row[b], back[a]));
            }
        }
    }
    let more = match pairs.len().saturating_sub(PAIRS_NAMED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    pairs.truncate(PAIRS_NAMED_MAX);
    match pairs.is_empty() {
        true => String::new(),
        false => format!("the way back differs: {}{more}\n", pairs.join(", ")),
    }
}

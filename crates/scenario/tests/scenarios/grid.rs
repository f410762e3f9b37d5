//! Grids are every combination in one order, and shards are parts of them.

use nodeward_scenario::{Axis, Grid, POINTS_MAX, ScenarioText, Seeds, Shard};
use proptest::prelude::*;

fn axis(text: &str) -> Axis {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn grid(axes: &[&str], seeds: &str) -> Grid {
    Grid::new(axes.iter().map(|text| axis(text)).collect(), seeds.parse().unwrap()).unwrap()
}

/// Goal: lists and ranges expand to the expected values.
#[test]
fn lists_and_ranges() {
    let table: [(&str, &[&str]); 12] = [
        ("k=a", &["a"]),
        ("k=7..7", &["7"]),
        ("k= a , b ", &["a", "b"]),
        ("k=1..4", &["1", "2", "3", "4"]),
        ("k=1..8+3", &["1", "4", "7"]),
        ("k=64..4096*4", &["64", "256", "1024", "4096"]),
        ("k=64KiB..200KiB*2,1MiB", &["64KiB", "128KiB", "1MiB"]),
        ("k=0..40ns+20ns", &["0ns", "20ns", "40ns"]),
        ("k=1GB/s..3GB/s", &["1GB/s", "2GB/s", "3GB/s"]),
        ("k=\"0,1\",\"2..3\"", &["\"0,1\"", "\"2..3\""]),
        (
            "k=[[10, 20], [20, 10]],[[10, 30], [30, 10]]",
            &["[[10, 20], [20, 10]]", "[[10, 30], [30, 10]]"],
        ),
        ("k=1.5,bind:0-1", &["1.5", "bind:0-1"]),
    ];
    for (text, values) in table {
        let axis = axis(text);
        assert_eq!((axis.key(), axis.values()), ("k", &values.map_owned()[..]), "{text}");
    }
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for &[&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|&text| text.to_owned()).collect()
    }
}

/// Goal: an invalid or endless list is refused with what was expected.
#[test]
fn what_is_no_grid() {
    let table = [
        ("k", "KEY=VALUE"),
        ("=1", "KEY=VALUE"),
        ("k=", "empty value"),
        ("k=1,,2", "empty value"),
        ("k=1\n", "KEY=VALUE"),
        ("k=1,2,1", "k takes 1 twice"),
        ("k=1..3,2", "k takes 2 twice"),
        ("k=8..1", "A..B"),
        ("k=1..", "A..B"),
        ("k=1..9+0", "A..B"),
        ("k=1..9*1", "A..B"),
        ("k=0..9*2", "A..B"),
        ("k=1..9+x", "A..B"),
        ("k=1ns..9us", "A..B"),
        ("k=1.5..9", "A..B"),
        ("k=0..18446744073709551615", "100000 of them at most"),
    ];
    for (text, told) in table {
        let error = text.parse::<Axis>().unwrap_err().to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
    for text in ["", "a", "3-1", "1,1", "1-3,2", "-1", "0-18446744073709551615"] {
        assert!(text.parse::<Seeds>().is_err(), "{text}");
    }
    for text in ["", "1", "0/4", "5/4", "1/0", "a/b", "-1/4", "1/100001"] {
        assert!(text.parse::<Shard>().is_err(), "{text}");
    }
    let axes = |texts: &[&str]| texts.iter().map(|text| axis(text)).collect::<Vec<_>>();
    let seeds: Seeds = "1-2".parse().unwrap();
    let error = Grid::new(axes(&["k=1", "k=2"]), seeds.clone()).unwrap_err().to_string();
    assert!(error.contains("k has two lines"), "{error}");
    // 1000 x 100 points are the maximum; with two seeds each they are too many.
    let large = axes(&["k=1..1000", "l=1..100"]);
    assert_eq!(Grid::new(large.clone(), "1".parse().unwrap()).unwrap().points(), POINTS_MAX);
    assert!(Grid::new(large, seeds).unwrap_err().to_string().contains("too many"));
}

/// Goal: the seed changes fastest, then the last key.
#[test]
fn the_order_of_points() {
    let grid = grid(&["a=x,y", "b=1..3"], "7,9");
    let all: Vec<_> = (0..grid.points())
        .map(|number| {
            let point = grid.point(number);
            assert_eq!(point.number, number);
            format!("{}{}s{}", point.values[0], point.values[1], point.seed)
        })
        .collect();
    let expected = "x1s7 x1s9 x2s7 x2s9 x3s7 x3s9 y1s7 y1s9 y2s7 y2s9 y3s7 y3s9";
    assert_eq!(all.join(" "), expected);
}

/// Goal: without axes there is one point per seed.
#[test]
fn a_grid_without_axes() {
    let grid = grid(&[], "3-4");
    assert_eq!(grid.points(), 2);
    assert_eq!(grid.point(1).seed, 4);
}

/// Goal: a source that is read once gives the same scenario as a lookup.
#[test]
fn a_source_makes_scenarios() {
    let source = ScenarioText::find("two-nodes").unwrap();
    assert!(source.text().contains("[[node]]"));
    let sets = [("machine.latency", "100ns")];
    let found = nodeward_scenario::Scenario::find_with("two-nodes", &sets).unwrap();
    assert_eq!(source.with(&sets).unwrap(), found);
}

proptest! {
    /// Goal: every point is in exactly one of the shards, and each shard is in order.
    #[test]
    fn shards_are_a_partition(points in 1_usize..500, count in 1_usize..40) {
        let shards = (1..=count).map(|number| format!("{number}/{count}"));
        let shards = shards.map(|text| text.parse::<Shard>().unwrap());
        let shards: Vec<Vec<_>> = shards.map(|shard| shard.numbers(points).collect()).collect();
        prop_assert!(shards.iter().all(|shard| shard.is_sorted()));
        let sizes = || shards.iter().map(Vec::len);
        prop_assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1);
        let mut all = shards.concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..points).collect::<Vec<_>>());
    }

    /// Goal: points are all different, and in the order of their lists.
    #[test]
    fn points_are_in_order(counts in prop::collection::vec(1_u64..6, 0..4), seeds in 1_u64..4) {
        let text = |(place, count): (usize, &u64)| format!("k{place}=10..{}", 10 + count);
        let axes = counts.iter().enumerate().map(text).map(|text| text.parse().unwrap());
        let seeds = format!("10-{}", 9 + seeds).parse().unwrap();
        let grid = Grid::new(axes.collect(), seeds).unwrap();
        let all = (0..grid.points()).map(|number| grid.point(number));
        // All numbers have two digits, so texts sort like numbers.
        let all: Vec<_> = all.map(|point| format!("{:?} {}", point.values, point.seed)).collect();
        prop_assert!(all.is_sorted());
        prop_assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    }

    /// Goal: no text makes a grid panic, or exceed the maximum number of points.
    #[test]
    fn any_text(text in "k=[0-9a-z.,+*\"\\[\\]{}]{0,24}") {
        if let Ok(axis) = text.parse::<Axis>() {
            prop_assert!((1..=POINTS_MAX).contains(&axis.values().len()));
        }
    }
}

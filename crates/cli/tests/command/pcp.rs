//! `pcp` on the kernel of this machine.

use std::process::{Command, Output};

use serde_json::Value;

use crate::outcome::{NODEWARD, assert_failure, success};

fn pcp(words: &str) -> Output {
    let mut command = Command::new(NODEWARD);
    command.arg("pcp").args(words.split_whitespace()).output().unwrap()
}

fn json(words: &str) -> Vec<Value> {
    let text = success(words, pcp(words));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Goal: the lists of this kernel have the documented fields, each zone a list for each of this
/// machine's CPUs that are online, and the text has the same lists.
#[test]
fn lists_are_shown() {
    let [shown] = &json("show --json")[..] else { panic!("one document") };
    assert_eq!(shown["schema"], "nodeward.pcp/1");
    assert_eq!(keys(shown), ["high_fraction", "page_bytes", "schema", "self_tuning", "zones"]);
    let zones = shown["zones"].as_array().unwrap();
    let of_zone = ["free_pages", "high_watermark_pages", "lists", "managed_pages", "node", "zone"];
    let of_list =
        ["batch_pages", "count_pages", "cpu", "high_max_pages", "high_min_pages", "high_pages"];
    let mut lists = 0;
    for zone in zones {
        assert_eq!(keys(zone), of_zone);
        let of_cpus = zone["lists"].as_array().unwrap();
        assert!(of_cpus.iter().all(|list| keys(list) == of_list), "{zone}");
        assert!(of_cpus.iter().all(|list| list["batch_pages"].as_u64() > Some(0)), "{zone}");
        lists += of_cpus.len();
    }
    let text = success("show", pcp("show"));
    let heads = text.lines().position(|line| line.starts_with("NODE ZONE")).unwrap();
    let rows = text.lines().skip(heads + 1).take_while(|line| !line.is_empty());
    assert_eq!(rows.count(), lists, "{text}");
}

/// Goal: as many rounds come as were asked for, each with the pages of the machine; a selection
/// leaves the other zones out.
#[test]
fn changes_are_watched() {
    let zone = &json("show --json")[0]["zones"][0];
    let (node, name) = (&zone["node"], zone["zone"].as_str().unwrap());
    let words = format!("watch --json --rounds 2 --interval 100ms --node {node} --zone {name}");
    let rounds = json(&words);
    assert_eq!(rounds.iter().map(|round| &round["round"]).collect::<Vec<_>>(), [1, 2]);
    for round in &rounds {
        assert_eq!(round["schema"], "nodeward.pcp-watch/1");
        assert!(round["elapsed_ns"].as_u64().unwrap() >= 100_000_000, "{round}");
        let pages = ["allocated_pages", "freed_pages"].map(|name| round[name].as_u64());
        assert!(pages.iter().all(Option::is_some), "{round}");
        let lists = round["lists"].as_array().unwrap();
        let is_selected = |list: &Value| (&list["node"], &list["zone"]) == (node, &zone["zone"]);
        assert!(!lists.is_empty() && lists.iter().all(is_selected), "{round}");
    }
    let text = success("watch", pcp("watch --rounds 1 --interval 100ms"));
    assert!(text.contains("pages allocated"), "{text}");
}

/// Goal: what is not there, or no number, ends with the code of bad input and one line that says
/// what there is.
#[test]
fn what_cannot_be_selected() {
    let told = assert_failure("node", &pcp("show --node 4095"), 2, &["of node 4095", "there are"]);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert_failure("zone", &pcp("watch --zone No\u{1b}Zone"), 2, &["of zone 'No\\x1bZone'"]);
    assert_failure("number", &pcp("show --node first"), 2, &["expected the number of a node"]);
    assert_failure("interval", &pcp("watch --interval 1ms"), 2, &["give 100ms to 3600s"]);
    assert_failure("rounds", &pcp("watch --rounds 0"), 2, &["--rounds"]);
}

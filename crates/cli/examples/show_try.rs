use nodeward_machine::Machine;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let m = nodeward_linux::Linux::open();
    let p = m.hold(a[1].parse().unwrap()).unwrap();
    let mut o = nodeward_engine::residency::Options::default();
    for x in &a[2..] {
        match x.as_str() {
            "--exact" => o.exact = true,
            n => o.samples_min = n.parse().unwrap(),
        }
    }
    let r = nodeward_engine::residency::measure(&m, &*p, &o).unwrap();
    println!("{}", serde_json::to_string(&r).unwrap());
}

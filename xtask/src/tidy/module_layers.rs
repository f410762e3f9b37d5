//! The modules of some crates are in layers: a module uses only modules of layers below its own.
//!
//! The roots of these crates describe the same layers to readers. A new module must be entered
//! here, so that somebody decides where it belongs.

use std::path::Path;

use super::module_tree::{FileUse, ModuleTree};
use super::source::RustSource;
use super::violation::Violation;

/// The layers of a crate.
struct LayeredCrate {
    /// The file of the crate's root, which may use every module.
    root: &'static str,
    /// The modules of each layer, the lowest layer first.
    order: &'static str,
}

const LAYERED_CRATES: [LayeredCrate; 3] = [
    LayeredCrate {
        root: "crates/cli/src/main.rs",
        order: "message < stop_signals < figures progress settings < args < results < machines < \
                output < top < verbs",
    },
    LayeredCrate {
        root: "crates/sim/src/lib.rs",
        order: "arithmetic ids < events < hardware < statistics < memory < cpu < faults < world < \
                paging < turns < scheduler < processes < migration < numa_balancing < hotplug < \
                programs < output < simulation < hashes machine",
    },
    LayeredCrate {
        root: "crates/pager/src/lib.rs",
        order: "chunk error page_bits sync < sys < copier pager_thread process_mark sections < \
                pool < context < region < migration < fault < backend < bare_moves < \
                bare_calls handles",
    },
];

/// Uses of modules that are not in a layer below, and modules that are in no layer.
pub fn check(sources: &[RustSource]) -> Vec<Violation> {
    LAYERED_CRATES.iter().flat_map(|layered| check_crate(layered, sources)).collect()
}

fn check_crate(layered: &LayeredCrate, sources: &[RustSource]) -> Vec<Violation> {
    let files = sources.iter().map(|source| (source.path.as_path(), source)).collect();
    let Some(root) = sources.iter().find(|source| source.path == Path::new(layered.root)) else {
        let advice = "is named in xtask/src/tidy/module_layers.rs and is not there; correct it";
        return vec![Violation::new(Path::new(layered.root), 0, advice)];
    };
    let uses = ModuleTree::new(root, &files).uses();
    uses.iter().filter_map(|one| layered.violation(one)).collect()
}

impl LayeredCrate {
    fn violation(&self, one: &FileUse<'_>) -> Option<Violation> {
        let user = self.module(one.user)?;
        let violation = |advice: String| Some(Violation::new(one.user, one.line, advice));
        let Some(layer) = self.layer(user) else {
            let list = "xtask/src/tidy/module_layers.rs";
            return violation(format!("`{user}` is in no layer; enter it in {list}"));
        };
        let used = self.module(one.used).unwrap_or("the root");
        if used == user || self.layer(used).is_some_and(|below| below < layer) {
            return None;
        }
        let path = &one.path;
        violation(format!(
            "uses `{path}` of {used}, which is in no layer below {user}; move what both need down"
        ))
    }

    /// Returns the module of the root that a file belongs to; `None` for the root itself.
    fn module<'a>(&self, file: &'a Path) -> Option<&'a str> {
        let root = Path::new(self.root);
        let inside = file.strip_prefix(root.parent()?).ok().filter(|_| file != root)?;
        Path::new(inside.components().next()?.as_os_str()).file_stem()?.to_str()
    }

    fn layer(&self, module: &str) -> Option<usize> {
        self.order.split(" < ").position(|layer| layer.split(' ').any(|name| name == module))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERED: LayeredCrate =
        LayeredCrate { root: "a/src/main.rs", order: "low beside < high" };

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        let root = ("a/src/main.rs", "mod low;\nmod beside;\nmod high;\nmod new;\nuse high::H;\n");
        let files = [root].into_iter().chain(files.iter().copied());
        let sources: Vec<_> =
            files.map(|(path, text)| RustSource::new(Path::new(path), text)).collect();
        check_crate(&LAYERED, &sources).iter().map(ToString::to_string).collect()
    }

    /// Goal: a module uses itself and the layers below; the root uses every module.
    #[test]
    fn layers_below_may_be_used() {
        let high = ("a/src/high/mod.rs", "mod part;\nuse crate::low::L;\npub struct H;\n");
        let part = ("a/src/high/part.rs", "use super::H;\nfn f() { crate::beside::b(); }\n");
        let low = ("a/src/low.rs", "pub struct L;\n");
        let beside = ("a/src/beside.rs", "pub fn b() {}\n");
        assert_eq!(violations(&[high, part, low, beside]), [""; 0]);
    }

    /// Goal: uses of a layer above, of the same layer and of the root are told with their lines.
    #[test]
    fn other_layers_may_not_be_used() {
        let low = ("a/src/low.rs", "use crate::high::H;\nuse crate::beside::b;\nuse crate::X;\n");
        let high = ("a/src/high/mod.rs", "pub struct H;\n");
        let beside = ("a/src/beside.rs", "pub fn b() {}\n");
        let advice = |line, path, used| {
            format!(
                "a/src/low.rs:{line}: uses `{path}` of {used}, which is in no layer below low; \
                 move what both need down"
            )
        };
        let expected = [
            advice(1, "crate::high::H", "high"),
            advice(2, "crate::beside::b", "beside"),
            advice(3, "crate::X", "the root"),
        ];
        assert_eq!(violations(&[low, high, beside]), expected);
    }

    /// Goal: a module that nobody entered, and a crate that is gone, are told.
    #[test]
    fn what_is_not_in_the_list() {
        let new = ("a/src/new.rs", "use crate::low::L;\n");
        let low = ("a/src/low.rs", "pub struct L;\n");
        let advice = "a/src/new.rs:1: `new` is in no layer; enter it in \
                      xtask/src/tidy/module_layers.rs";
        assert_eq!(violations(&[new, low]), [advice]);
        assert_eq!(check_crate(&LAYERED, &[]).len(), 1);
    }
}

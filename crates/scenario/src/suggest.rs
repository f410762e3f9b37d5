//! Suggestions for a word that does not exist.

/// Similarity from which two words may be confused, from 0 to 1.
const SIMILARITY_MIN: f64 = 0.8;
/// Longer lists of words are not shown in full.
const LISTED_MAX: usize = 28;
/// Number of similar words shown instead.
const SUGGESTED_MAX: usize = 6;

/// Returns `one of a, b, c`, with the likeliest word first if there is one.
pub(crate) fn expected_one_of(word: &str, words: &[&str]) -> String {
    if let [only] = words {
        return format!("'{only}'");
    }
    let mut nearest: Vec<(f64, &str)> =
        words.iter().map(|each| (strsim::jaro_winkler(word, each), *each)).collect();
    nearest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let meant = nearest.first().filter(|(alike, _)| *alike >= SIMILARITY_MIN);
    let meant = meant.map(|(_, each)| format!(" (did you mean '{each}'?)")).unwrap_or_default();
    if words.len() <= LISTED_MAX {
        return format!("one of {}{meant}", words.join(", "));
    }
    let some: Vec<_> = nearest.iter().take(SUGGESTED_MAX).map(|(_, each)| *each).collect();
    format!("one of {} and {} others{meant}", some.join(", "), words.len() - some.len())
}

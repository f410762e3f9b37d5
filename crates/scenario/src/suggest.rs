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
    let meant = did_you_mean(word, words);
    if words.len() <= LISTED_MAX {
        return format!("one of {}{meant}", words.join(", "));
    }
    let some: Vec<_> =
        by_similarity(word, words).into_iter().take(SUGGESTED_MAX).map(|(_, each)| each).collect();
    format!("one of {} and {} others{meant}", some.join(", "), words.len() - some.len())
}

/// Returns ` (did you mean 'WORD'?)` with the word that was likely meant by another one; nothing if
/// there is none.
pub fn did_you_mean(word: &str, words: &[&str]) -> String {
    let nearest = by_similarity(word, words).into_iter().next();
    let meant = nearest.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    meant.map(|(_, each)| format!(" (did you mean '{each}'?)")).unwrap_or_default()
}

/// Returns the words with their similarity, the most similar first.
fn by_similarity<'a>(word: &str, words: &[&'a str]) -> Vec<(f64, &'a str)> {
    let mut all: Vec<_> =
        words.iter().map(|each| (strsim::jaro_winkler(word, each), *each)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all
}

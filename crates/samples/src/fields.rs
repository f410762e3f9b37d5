//! Parses numbers and words in lines of text, without copying.

/// Parses a number of 1 to 16 hexadecimal digits, with or without `0x`.
pub fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = match text {
        [b'0', b'x' | b'X', digits @ ..] => digits,
        digits => digits,
    };
    if !(1..=16).contains(&digits.len()) {
        return None;
    }
    let (mut number, mut all) = (0, 0);
    for &digit in digits {
        let value = VALUES[usize::from(digit)];
        number = number << 4 | u64::from(value);
        all |= value;
    }
    (all < 16).then_some(number)
}

/// The value of each digit, and one beyond 15 for other bytes: one lookup and no branch per digit.
const VALUES: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value as usize] as usize] = value;
        values[b"0123456789ABCDEF"[value as usize] as usize] = value;
        value += 1;
    }
    values
};

/// Parses a number of decimal digits and nothing else.
pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// Returns the words between blanks.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_numbers_fit_64_bits_or_are_none() {
        for (text, number) in [
            ("0", Some(0)),
            ("7f00", Some(0x7f00)),
            ("0xFf", Some(0xff)),
            ("0Xff", Some(0xff)),
            ("ffffffffffffffff", Some(u64::MAX)),
            ("10000000000000000", None), // 17 digits
            ("", None),
            ("0x", None),
            ("-1", None),
            ("+1", None),
            ("7g", None),
            ("7 0", None),
        ] {
            assert_eq!(hexadecimal(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn decimal_numbers_fit_64_bits_or_are_none() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for text in ["18446744073709551616", "", "+1", "-1", "1a", "0x1"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
    }
}

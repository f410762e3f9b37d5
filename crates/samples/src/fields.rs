//! Numbers and words in lines of text, without a copy.

/// A number of 1 to 16 hexadecimal digits, with or without `0x`.
pub fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = match text {
        [b'0', b'x' | b'X', digits @ ..] => digits,
        digits => digits,
    };
    if !(1..=16).contains(&digits.len()) {
        return None;
    }
    let mut number = 0;
    for &digit in digits {
        number = number << 4 | u64::from(value(digit)?);
    }
    Some(number)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// A number of decimal digits and nothing else.
pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// The words between blanks.
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

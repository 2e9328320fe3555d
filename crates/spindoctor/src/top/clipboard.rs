//! A text for the clipboard of the terminal: it works over ssh, too. Whether it is done is the terminal's choice.
//!
//! In: the text. Out: what a terminal takes as a request to copy it, the control sequence OSC 52 (xterm's control sequences, "Manipulate
//! Selection Data"): `ESC ] 52 ; c ; BASE64 BEL`.

/// The digits of base64 (RFC 4648, table 1).
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The request to copy a text.
pub fn request(text: &str) -> String {
    format!("\u{1b}]52;c;{}\u{7}", base64(text.as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            text.push(match place <= chunk.len() {
                true => char::from(DIGITS[((bits >> (18 - 6 * place)) & 63) as usize]),
                false => '=',
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn a_text_is_written_as_rfc_4648_has_it_and_within_the_sequence() {
        for (text, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), coded, "{text}");
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
        assert_eq!(request("KILL 9"), "\u{1b}]52;c;S0lMTCA5\u{7}");
    }
}

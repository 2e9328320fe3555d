//! JSON as every command prints it.

use super::safe;

/// Anything as indented JSON that is safe to print on a terminal.
pub fn to_text(value: &impl serde::Serialize) -> serde_json::Result<String> {
    let mut json = safe::safe_json(&serde_json::to_string_pretty(value)?);
    json.push('\n');
    Ok(json)
}

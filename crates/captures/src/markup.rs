//! A page's markup, undone: tables in HTML as tables in a frame, tags of text that is not wrapped, the names of characters.

use std::borrow::Cow;

/// A page of a blog or a ticket: tags of text that is not wrapped, and the names of characters.
pub(crate) fn without_markup(text: &str) -> Cow<'_, str> {
    const TAGS: [(&str, &str); 24] = [
        // `mysql -H`, which writes a table as one line.
        ("<TR>", "\n| "),
        ("<tr>", "\n| "),
        ("<TH>", ""),
        ("<th>", ""),
        ("</TH>", " | "),
        ("</th>", " | "),
        ("<TD>", ""),
        ("<td>", ""),
        ("</TD>", " | "),
        ("</td>", " | "),
        ("<br>", "\n"),
        ("<br/>", "\n"),
        ("<br />", "\n"),
        ("<pre>", ""),
        ("</pre>", "\n"),
        ("<code>", ""),
        ("</code>", ""),
        ("<p>", ""),
        ("</p>", "\n"),
        ("<div>", ""),
        ("</div>", "\n"),
        ("<span>", ""),
        ("</span>", ""),
        ("```", ""),
    ];
    const CHARACTERS: [(&str, &str); 9] = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&nbsp;", " "),
        ("&ndash;", "\u{2013}"),
        ("&mdash;", "\u{2014}"),
        ("&minus;", "-"),
        ("&hellip;", "..."),
    ];
    let mut text = without_attributes(without_macros(plain_tables(text)));
    // A table and its rows end where a line does.
    if text.contains("</TR>") || text.contains("</tr>") {
        let ends = ["</TR>", "</tr>", "</TABLE>", "</table>", "<TABLE>", "<table>"];
        let groups = ["<thead>", "</thead>", "<tbody>", "</tbody>"];
        let plain = ends.iter().fold(text.into_owned(), |text, end| text.replace(end, "\n"));
        let plain = groups.iter().fold(plain, |text, group| text.replace(group, ""));
        // An empty line would end the table.
        let lines: Vec<&str> = plain.lines().filter(|line| !line.trim().is_empty()).collect();
        text = Cow::Owned(lines.join("\n") + "\n");
    }
    if text.contains('<') || text.contains("```") {
        for (tag, instead) in TAGS {
            if text.contains(tag) {
                text = Cow::Owned(text.replace(tag, instead));
            }
        }
    }
    if !text.contains('&') {
        return text;
    }
    for (name, instead) in CHARACTERS {
        if text.contains(name) {
            text = Cow::Owned(text.replace(name, instead));
        }
    }
    if text.contains("&#") {
        text = Cow::Owned(by_number(&text));
    }
    // Last, so that nothing is decoded twice.
    match text.contains("&amp;") {
        true => Cow::Owned(text.replace("&amp;", "&")),
        false => text,
    }
}

/// Bytes of a tag.
const LONGEST_TAG: usize = 500;

/// Tags of text without their attributes, as a page has them that colours its code: `<span class="keyword">`.
fn without_attributes(text: Cow<'_, str>) -> Cow<'_, str> {
    let has_attributes = text.contains('<') && ["=\"", "='"].iter().any(|sign| text.contains(sign));
    if !has_attributes {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest: &str = &text;
    while let Some((before, after)) = rest.split_once('<') {
        plain.push_str(before);
        plain.push('<');
        rest = after;
        if let Some((name, end)) = tag_with_attributes(after) {
            plain.push_str(name);
            rest = &after[end..];
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The name of a tag of text that has attributes, and where it ends, of what stands behind its `<`.
fn tag_with_attributes(after: &str) -> Option<(&str, usize)> {
    const OF_TEXT: [&str; 5] = ["pre", "span", "code", "div", "p"];
    let near = &after[..after.floor_char_boundary(LONGEST_TAG)];
    let end = near.find('>')?;
    let (name, attributes) = near[..end].split_once([' ', '\n', '\t'])?;
    let (attribute, value) = attributes.trim_start().split_once('=')?;
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    let is_attribute = !attribute.is_empty() && is_name(attribute) && value.starts_with(['"', '\'']);
    (OF_TEXT.contains(&name) && is_attribute).then_some((name, end))
}

/// A ticket of Jira without the marks around text that is not wrapped: `{noformat}`, `{code}`, `{code:sql|title=x}`.
fn without_macros(text: Cow<'_, str>) -> Cow<'_, str> {
    const MACROS: [&str; 2] = ["{noformat", "{code"];
    /// Bytes of what it is given.
    const LONGEST: usize = 120;
    if !MACROS.iter().any(|name| text.contains(name)) {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest: &str = &text;
    while let Some(at) = rest.find('{') {
        let name = MACROS.iter().find(|name| rest[at..].starts_with(**name));
        let behind =
            name.map(|name| &rest[at + name.len()..]).filter(|behind| behind.starts_with(['}', ':']));
        let end = behind
            .and_then(|behind| behind.bytes().take(LONGEST).position(|byte| byte == b'}' || byte == b'\n'));
        match behind.zip(end).filter(|(behind, end)| behind.as_bytes()[*end] == b'}') {
            Some((behind, end)) => {
                plain.push_str(&rest[..at]);
                rest = &behind[end + 1..];
            }
            None => {
                plain.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The tags of a page's tables without what else stands in them, `<td>` of `<TD CLASS="right">`, and without those of links, pictures and
/// the like within their cells.
fn plain_tables(text: &str) -> Cow<'_, str> {
    const OF_TABLES: [&str; 6] = ["table", "thead", "tbody", "tr", "th", "td"];
    /// These are a line's end outside of tables.
    const OF_TEXT: [&str; 5] = ["pre", "span", "code", "div", "p"];
    const DROPPED: [&str; 23] = [
        "a", "abbr", "b", "big", "button", "caption", "center", "col", "colgroup", "em", "font", "form", "i",
        "img", "input", "label", "nobr", "small", "strong", "sup", "tfoot", "u", "wbr",
    ];
    /// Bytes of a tag.
    const LONGEST: usize = 500;
    let is_table = ["<td", "<TD"].iter().any(|tag| text.contains(tag));
    if !is_table {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_cell = false;
    while let Some((before, after)) = rest.split_once('<') {
        plain.push_str(before);
        let (ends, bare) = after.strip_prefix('/').map_or(("", after), |bare| ("/", bare));
        let name = &bare[..bare.bytes().take_while(u8::is_ascii_alphabetic).count()];
        let name = name.to_ascii_lowercase();
        let is_tag = bare[name.len()..].starts_with([' ', '\n', '\t', '/', '>']);
        let end = after.bytes().take(LONGEST).position(|byte| byte == b'>').filter(|_| is_tag);
        let is_of = |names: &[&str]| names.contains(&name.as_str());
        match end {
            Some(end) if is_of(&DROPPED) || is_of(&OF_TEXT) && in_cell => rest = &after[end + 1..],
            Some(end) if is_of(&OF_TABLES) || is_of(&OF_TEXT) => {
                if is_of(&["td", "th"]) {
                    in_cell = ends.is_empty();
                }
                plain.push_str(&format!("<{ends}{name}>"));
                rest = &after[end + 1..];
            }
            _ => {
                plain.push('<');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(cells_in_one_line(&plain))
}

/// The cells of a row in one line: what stands between a tag and its text, or between two cells, is no text.
fn cells_in_one_line(text: &str) -> String {
    const BEGIN: [&str; 3] = ["<tr>", "<td>", "<th>"];
    const END: [&str; 2] = ["</td>", "</th>"];
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(tag) = BEGIN.iter().chain(&END).find(|tag| rest.starts_with(**tag)) else {
            plain.push('<');
            rest = &rest[1..];
            continue;
        };
        if END.contains(tag) {
            let kept = plain.trim_end().len();
            plain.truncate(kept);
        }
        plain.push_str(tag);
        rest = &rest[tag.len()..];
        // The rule above InnoDB's status is a line.
        if !rest.trim_start().starts_with("====") {
            rest = rest.trim_start();
        }
    }
    plain.push_str(rest);
    plain
}

/// `&#8211;`, `&#x2013;`
fn by_number(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("&#") {
        plain.push_str(before);
        let number = |digits: &str| match digits.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        };
        let end = after.bytes().take(8).position(|byte| byte == b';');
        match end.and_then(|end| Some((end, char::from_u32(number(&after[..end])?)?))) {
            Some((end, character)) => {
                plain.push(character);
                rest = &after[end + 1..];
            }
            None => {
                plain.push_str("&#");
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(plain: &str) -> Vec<&str> {
        plain.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn a_ticket_of_jira_loses_its_marks() {
        let ticket = "See:\n{noformat}---TRANSACTION 421, not started\n{noformat}\n{code:sql|title=a list}| Id | Info |{code}\n{code: no\n{other}{\"code\": 5}\n";
        assert_eq!(
            without_markup(ticket),
            "See:\n---TRANSACTION 421, not started\n\n| Id | Info |\n{code: no\n{other}{\"code\": 5}\n"
        );
    }

    #[test]
    fn code_that_a_page_colours_is_the_code() {
        let page = "<pre class='sql'><span class=\"line\">| <span class=\"number\">7</span> | app | a &lt; b |</span><br></pre>c <p AND d> 5, e='f'\n";
        assert_eq!(without_markup(page), "| 7 | app | a < b |\n\nc <p AND d> 5, e='f'\n");
        let open = "a <span class=\"b\nc\n";
        assert_eq!(without_markup(open), open);
    }

    #[test]
    fn a_table_in_html_is_one_with_a_frame() {
        let table =
            "<TABLE BORDER=1><TR><TH>Id</TH><TH>Info</TH></TR><TR><TD>7</TD><TD>a &lt; b</TD></TR></TABLE>";
        let plain = without_markup(table);
        assert_eq!(rows(&plain), ["| Id | Info |", "| 7 | a < b |"]);
    }

    #[test]
    fn a_page_s_table_is_one_with_a_frame_whatever_stands_in_its_tags() {
        let page = "<html><body>\n<table class=\"data\" id=\"list\">\n<thead>\n<tr>\n <th>Id</th>\n <th>Info</th>\n</tr></thead>\n\
                    <tbody><tr class=\"odd\">\n<td class=\"right\">7</td>\n<td>a &lt; b</td></tr></tbody></table></body></html>\n";
        let plain = without_markup(page);
        assert_eq!(rows(&plain), ["<html><body>", "| Id | Info |", "| 7 | a < b |", "</body></html>"]);
    }

    #[test]
    fn a_cell_that_a_page_writes_in_lines_of_its_own_with_links_and_pictures_is_one() {
        let page = "<TABLE>\n <TR>\n  <TH><A HREF=\"?sort=1\">Id</A></TH>\n  <TH>\n   Info\n  </TH>\n </TR>\n <TR>\n  <TD ALIGN=right>\n   7\n  \
                    </TD>\n  <TD><code class=\"sql\"><pre>\nSELECT a\nFROM b WHERE c &lt; 5\n</pre></code></TD>\n </TR>\n</TABLE>\n";
        assert_eq!(rows(&without_markup(page)), ["| Id | Info |", "| 7 | SELECT a", "FROM b WHERE c < 5 |"]);
        let read = crate::recognise(
            "x",
            &page.replace("Info", "State").replace("SELECT a\nFROM b WHERE c &lt; 5", "init"),
        );
        assert_eq!(read[0].kind, crate::part::Kind::ProcessList, "{read:?}");
        // What a debugger prints between angle brackets is no tag.
        let frame = format!("{page}#1  <signal handler called>\n");
        assert!(without_markup(&frame).contains("<signal handler called>"));
    }
}

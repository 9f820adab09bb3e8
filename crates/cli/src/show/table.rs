//! Columns that line up.

/// Rows of cells; the first is the head. Columns are two spaces apart, the last is not padded.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| width(cell))
                .chain([width(head[column])])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (cell, column_width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(column_width.saturating_sub(width(cell)) + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A path (or any text from elsewhere) made safe for a terminal.
pub(crate) fn clean(text: impl std::fmt::Display) -> String {
    text.to_string().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "x".to_owned()], vec!["long".to_owned(), String::new()]];
        assert_eq!(table(&["N", "VALUE"], &rows), "N     VALUE\na     x\nlong\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\u{1b}[31m\n"), "a\u{fffd}[31m\u{fffd}");
    }
}

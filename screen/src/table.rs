//! Tables without frames. One that is too wide is printed in several, each with the columns that name its rows.

use std::collections::BTreeSet;
use std::fmt;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid, Width, presets,
};

use super::{LABEL, WIDTH, visible, width, wrap};

/// The columns that name rows take at most so many columns of the screen where the table is too wide.
const KEYS: usize = 44;
/// And so many they are at most.
const KEYS_MOST: usize = 5;
/// A column of text is made narrower down to this, rather than moved to the next table.
const TEXT: usize = 24;

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    text: String,
    number: bool,
}

impl Head {
    /// Of words, set to the left.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self {
            text: visible(text.as_ref()).into_owned(),
            number: false,
        }
    }

    /// Of numbers, set to the right.
    pub fn number(text: impl AsRef<str>) -> Self {
        Self {
            number: true,
            ..Self::text(text)
        }
    }
}

/// A table; its text has no line wider than [`WIDTH`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    heads: Vec<Head>,
    rows: Vec<Vec<String>>,
}

/// A column as it is printed.
struct Column {
    at: usize,
    lines: usize,
}

impl Table {
    /// A table with these columns.
    pub fn new(heads: impl IntoIterator<Item = Head>) -> Self {
        Self {
            heads: heads.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; cells that are missing stay empty, and there may be no more than heads.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut row: Vec<String> = cells
            .into_iter()
            .map(|cell| visible(cell.as_ref()).into_owned())
            .collect();
        debug_assert!(row.len() <= self.heads.len(), "a cell without a head");
        row.resize(self.heads.len(), String::new());
        self.rows.push(row);
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether it is printed in one.
    pub fn fits(&self) -> bool {
        self.blocks().len() <= 1
    }

    /// The cells of a column, its head first.
    fn cells(&self, at: usize) -> impl Iterator<Item = &str> {
        let head = std::iter::once(self.heads[at].text.as_str());
        head.chain(self.rows.iter().map(move |row| row[at].as_str()))
    }

    /// Widest line of a column whose cells are wrapped at `most`.
    fn wide(&self, at: usize, most: usize) -> usize {
        let lines = self.cells(at).map(|cell| {
            let folded = folded(cell, most);
            folded.lines().map(width).max().unwrap_or(0)
        });
        let least = if at == 0 && !self.heads[0].number {
            LABEL
        } else {
            1
        };
        lines.max().unwrap_or(0).max(least.min(most))
    }

    /// Spaces behind a column that is followed by another.
    fn gap(&self, at: usize, next: usize) -> usize {
        if self.heads[at].number || self.heads[next].number {
            1
        } else {
            2
        }
    }

    /// Whether a column says anything; of a table that is too wide, others are left out.
    fn says(&self, at: usize) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|row| !row[at].is_empty())
    }

    /// The columns on the left that tell the rows apart; they are of words, but for the first.
    fn keys(&self) -> Vec<usize> {
        let words = self.heads.iter().skip(1).take_while(|head| !head.number);
        let said = |at: &usize| *at == 0 || self.says(*at);
        let columns: Vec<usize> = (0..self.heads.len().min(1 + words.count()))
            .filter(said)
            .take(KEYS_MOST)
            .collect();
        let tells = |count: &usize| {
            let mut seen = BTreeSet::new();
            self.rows.iter().all(|row| {
                let key: Vec<&str> = columns[..*count]
                    .iter()
                    .map(|&at| row[at].as_str())
                    .collect();
                seen.insert(key)
            })
        };
        let count = (1..=columns.len()).find(tells).unwrap_or(1);
        columns.into_iter().take(count).collect()
    }

    /// The tables that this one is printed in.
    fn blocks(&self) -> Vec<Vec<Column>> {
        let all: Vec<usize> = (0..self.heads.len()).collect();
        let natural: Vec<usize> = all.iter().map(|&at| self.wide(at, usize::MAX)).collect();
        let gaps: usize = all.windows(2).map(|pair| self.gap(pair[0], pair[1])).sum();
        if natural.iter().sum::<usize>() + gaps <= WIDTH {
            let whole = |&at: &usize| Column {
                at,
                lines: natural[at],
            };
            return vec![all.iter().map(whole).collect()];
        }
        let keys = self.narrowed(self.keys());
        let taken: usize = keys.iter().map(|key| key.lines + 2).sum();
        let room = WIDTH.saturating_sub(taken).max(TEXT);
        let rest: Vec<Column> = all
            .into_iter()
            .filter(|at| keys.iter().all(|key| key.at != *at) && self.says(*at))
            .map(|at| Column {
                at,
                lines: self.wide(at, room),
            })
            .collect();
        let fewest = self.broken(&rest, room).len();
        // As narrow as so few tables can be, so that none is much wider than the others.
        let numbers = rest.iter().all(|column| self.heads[column.at].number);
        let least = if numbers { TEXT.min(room) } else { room };
        let limit = (least..=room).find(|&limit| {
            rest.iter().all(|column| column.lines <= limit)
                && self.broken(&rest, limit).len() == fewest
        });
        let mut blocks = self.broken(&rest, limit.unwrap_or(room));
        if blocks.is_empty() {
            blocks.push(Vec::new());
        }
        for block in &mut blocks {
            let again = keys.iter().map(|key| Column { ..*key });
            block.splice(0..0, again);
        }
        blocks
    }

    /// Columns that name rows, the widest made narrower until all leave room for others.
    fn narrowed(&self, keys: Vec<usize>) -> Vec<Column> {
        let wide = |at: usize| {
            let cells = self.cells(at).flat_map(str::lines).map(width);
            cells.max().unwrap_or(0).max(1)
        };
        let mut keys: Vec<Column> = keys
            .into_iter()
            .map(|at| Column {
                at,
                lines: wide(at).min(KEYS),
            })
            .collect();
        while keys.iter().map(|key| key.lines + 2).sum::<usize>() > KEYS {
            match keys.iter_mut().max_by_key(|key| key.lines) {
                Some(widest) if widest.lines > 2 => widest.lines -= 1,
                _ => break,
            }
        }
        keys
    }

    /// Columns in order, in groups of at most `room`.
    fn broken(&self, columns: &[Column], room: usize) -> Vec<Vec<Column>> {
        let mut groups: Vec<Vec<Column>> = Vec::new();
        let mut used = 0;
        for column in columns {
            let gap = match groups.last().and_then(|group| group.last()) {
                Some(last) => self.gap(last.at, column.at),
                None => 0,
            };
            let left = room.saturating_sub(used + gap);
            let lines = if column.lines <= left || groups.is_empty() {
                column.lines
            } else if !self.heads[column.at].number && left >= TEXT {
                self.wide(column.at, left)
            } else {
                groups.push(Vec::new());
                used = 0;
                column.lines
            };
            if groups.is_empty() {
                groups.push(Vec::new());
            }
            let gap = if used > 0 { gap } else { 0 };
            used += gap + lines;
            if let Some(group) = groups.last_mut() {
                group.push(Column {
                    at: column.at,
                    lines,
                });
            }
        }
        groups
    }

    fn grid(&self, block: &[Column]) -> String {
        let mut grid = Grid::new();
        let cell = |text: &str, column: &Column| folded(text, column.lines);
        grid.load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        if block
            .iter()
            .any(|column| !self.heads[column.at].text.is_empty())
        {
            grid.set_header(
                block
                    .iter()
                    .map(|column| cell(&self.heads[column.at].text, column)),
            );
        }
        for row in &self.rows {
            grid.add_row(block.iter().map(|column| cell(&row[column.at], column)));
        }
        for (index, column) in block.iter().enumerate() {
            let Some(drawn) = grid.column_mut(index) else {
                continue;
            };
            let gap = block
                .get(index + 1)
                .map_or(0, |next| self.gap(column.at, next.at));
            drawn.set_padding((0, gap as u16));
            if self.heads[column.at].number {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
            if index == 0 {
                let least = (column.lines + gap).min(LABEL) as u16;
                drawn.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            }
        }
        grid.to_string()
    }
}

/// A cell with its longer lines broken.
fn folded(cell: &str, most: usize) -> String {
    if cell.lines().all(|line| width(line) <= most) {
        return cell.to_owned();
    }
    let lines = cell.lines().flat_map(|line| {
        if width(line) <= most {
            vec![line.to_owned()]
        } else {
            wrap(line, most)
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, block) in self.blocks().iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            for line in self.grid(block).lines() {
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(name: &str, columns: usize, cell: &str) -> Table {
        let heads = (0..columns).map(|at| Head::number(format!("n{at}\ns")));
        let mut table = Table::new(std::iter::once(Head::text("policy")).chain(heads));
        let cells = std::iter::repeat_n(cell.to_owned(), columns);
        table.row(std::iter::once(name.to_owned()).chain(cells));
        table
    }

    #[test]
    fn what_fits_is_one_table() {
        let table = numbers("serial", 3, "1.23");
        assert!(table.fits());
        let text = table.to_string();
        assert_eq!(
            text,
            "policy        n0   n1   n2\n               s    s    s\nserial      1.23 1.23 1.23\n"
        );
    }

    #[test]
    fn too_many_columns_are_several_tables_of_like_width() {
        let text = numbers("state_aware:w+p+s", 4, "+0.559 ± 0.038 ≠").to_string();
        let blocks: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(blocks.len(), 2, "{text}");
        for block in blocks {
            assert!(block.starts_with("policy "));
            assert_eq!(block.matches(" ± ").count(), 2, "{text}");
            assert!(
                block.contains("\nstate_aware:w+p+s +0.559 ± 0.038 ≠"),
                "{text}"
            );
        }
    }

    #[test]
    fn long_names_go_on_below() {
        let name =
            "a_very_long_name_of_a_policy_of_somebody's_own_that_does_not_fit_a_line:really.rhai";
        let text = numbers(name, 4, "0.0123").to_string();
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert!(text.lines().count() > 3 && !text.contains("\n\n"), "{text}");
        let found: String = text
            .lines()
            .skip(2)
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        assert_eq!(found, name);
    }

    #[test]
    fn rows_are_told_apart_in_every_part() {
        let mut table = Table::new(
            ["policy", "metric"]
                .map(Head::text)
                .into_iter()
                .chain((0..8).map(|at| Head::number(format!("number {at}")))),
        );
        for metric in ["ttft", "completion"] {
            table.row(
                ["w+p", metric]
                    .into_iter()
                    .chain(std::iter::repeat_n("0.1234", 8)),
            );
        }
        let text = table.to_string();
        assert_eq!(text.matches("w+p").count(), 4, "{text}");
        assert_eq!(text.matches("completion").count(), 2, "{text}");
    }

    #[test]
    fn words_share_what_room_is_left() {
        let mut table = Table::new([
            Head::text("row"),
            Head::number("measured"),
            Head::text("why"),
        ]);
        table.row([
            "a",
            "1.00",
            &"no scenario covers this setting of the board ".repeat(4),
        ]);
        let text = table.to_string();
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert_eq!(text.matches("setting").count(), 4, "{text}");
        assert!(!text.contains("\n\n"), "{text}");
    }

    #[test]
    fn control_characters_are_written_out() {
        let mut table = Table::new([Head::text("name"), Head::number("s")]);
        table.row(["\u{1b}[2J", "1"]);
        let text = table.to_string();
        assert!(text.contains("\\u{1b}[2J") && !text.contains('\u{1b}'));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_wider_than_a_screen(
            heads in prop::collection::vec(("[a-z]{0,20}", any::<bool>()), 1..9),
            rows in prop::collection::vec(prop::collection::vec("[a-zé深 :_]{0,120}", 9), 0..5),
        ) {
            let mut table = Table::new(heads.iter().map(|(text, number)| {
                if *number { Head::number(text) } else { Head::text(text) }
            }));
            for row in &rows {
                table.row(row.iter().take(heads.len()));
            }
            let text = table.to_string();
            for line in text.lines() {
                prop_assert!(width(line) <= WIDTH, "{}\n{}", line, text);
            }
            let count = |text: &str, c: char| text.matches(c).count();
            for c in ['é', '深'] {
                let cells = rows.iter().flat_map(|row| row.iter().take(heads.len()));
                let there: usize = cells.map(|cell| count(cell, c)).sum();
                prop_assert!(count(&text, c) >= there);
            }
        }
    }
}

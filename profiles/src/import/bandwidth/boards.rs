//! Names of boards and chips, and sbc-bench's list of boards.

use super::super::note::Notes;
use super::super::row::Place;
use super::super::text;
use super::unit::{self, Unit, named, stated};
use super::{Board, Flow, Rate};

/// A chip without what sbc-bench read of its ID, `(35880000 / 35 88 12 fe …)`, which differs from one piece to the next;
/// and that.
pub(super) fn chip_of(text: &str) -> (&str, Option<&str>) {
    let text = text.trim();
    let parts = text
        .strip_suffix(')')
        .and_then(|text| text.rsplit_once('('));
    let Some((chip, id)) = parts else {
        return (text, None);
    };
    let hexadecimal = |c: char| c.is_ascii_hexdigit() || matches!(c, ' ' | '/' | ':' | 'x');
    // `A311D` is a chip's name.
    let long = id.len() >= 8 || id.contains([' ', '/', ':']);
    if long && id.contains(|c: char| c.is_ascii_digit()) && id.chars().all(hexadecimal) {
        (chip.trim_end(), Some(id.trim()))
    } else {
        (text, None)
    }
}

/// The name in a cell such as `[Clearfog A1<br />(Armada 388)](results/4d1U.txt)`.
fn named_as(cell: &str) -> String {
    let name = cell.trim_start_matches('[').split(']').next();
    let mut name = name.unwrap_or("").to_owned();
    for end in ["<br />", "<br/>", "<br>"] {
        name = name.replace(end, " ");
    }
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join(" ")
}

/// The columns of a list of boards.
pub(super) struct Columns {
    names: Vec<String>,
    /// The unit that the header states of a column.
    units: Vec<Option<&'static Unit>>,
}

impl Columns {
    pub(super) fn of(file: &str, line: u64, cells: &[String], notes: &mut Notes) -> Self {
        let names: Vec<String> = cells.iter().map(|cell| cell.to_lowercase()).collect();
        // sbc-bench's own list states no unit: tinymembench's, MB/s.
        let own = ["clockspeed", "7-zip"]
            .iter()
            .all(|wanted| names.iter().any(|name| name.starts_with(wanted)));
        let mut units = Vec::new();
        for (cell, name) in cells.iter().zip(&names) {
            let rate = name.starts_with("memcpy") || name.starts_with("memset");
            units.push(match stated(cell) {
                _ if !rate => None,
                Ok(unit) => unit.or_else(|| own.then(|| named("MB/s")).flatten()),
                Err(fault) => {
                    notes.skip(file, line, format!("`{}`: {fault}", text::short(cell)));
                    None
                }
            });
        }
        Self { names, units }
    }

    fn at(&self, name: &str) -> Option<usize> {
        self.names
            .iter()
            .position(|column| column.starts_with(name))
    }

    /// A cell in GB/s, with how it stood.
    fn rate(&self, index: usize, cell: &str) -> Result<(f64, String), String> {
        let number = match stated(cell)? {
            Some(unit) => (cell.trim().trim_end_matches(unit.name), unit),
            None => match self.units[index] {
                Some(unit) => (cell, unit),
                None => return Err(unit::unknown("")),
            },
        };
        let (text, unit) = number;
        let rate = text::positive(text)?;
        Ok((rate * unit.gbps, format!("{rate} {}", unit.name)))
    }
}

/// A row of sbc-bench's list of boards.
pub(super) fn listed(
    file: &str,
    line: u64,
    columns: &Columns,
    cells: &[String],
    notes: &mut Notes,
) -> Option<Board> {
    let at = |name: &str| columns.at(name);
    let (device, memcpy, memset) = (at("device")?, at("memcpy")?, at("memset")?);
    if cells.len() != columns.names.len() {
        notes.skip(
            file,
            line,
            format!(
                "the row has {} cells, the header {}",
                cells.len(),
                columns.names.len()
            ),
        );
        return None;
    }
    let name = named_as(&cells[device]);
    let about = ["clockspeed", "kernel", "distro"]
        .iter()
        .filter_map(|name| {
            let index = at(name)?;
            Some(format!("{name} {}", cells[index]))
        });
    let mut board = Board {
        name,
        file: file.to_owned(),
        engine: "cpu",
        about: about.collect(),
        ..Board::default()
    };
    for (index, flow, factor, what) in [
        (memcpy, Flow::Both, 2.0, "memcpy"),
        (memset, Flow::Write, 1.0, "memset"),
    ] {
        match columns.rate(index, &cells[index]) {
            Ok((gbps, shown)) => board.rates.push(Rate {
                flow,
                gbps: gbps * factor,
                what: format!("{what} {shown}"),
                place: Place {
                    file: file.to_owned(),
                    line,
                },
            }),
            Err(reason) => notes.skip(file, line, format!("{what} of {}: {reason}", board.name)),
        }
    }
    (!board.rates.is_empty()).then_some(board)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_chip_is_no_part_of_its_name() {
        for (text, chip, id) in [
            (
                "Rockchip RK3588 (35880000 / 35 88 12 fe 21 41  32 34)",
                "Rockchip RK3588",
                "35880000 / 35 88 12 fe 21 41  32 34",
            ),
            ("Rockchip RK3399 (33990000)", "Rockchip RK3399", "33990000"),
            (
                "Amlogic Meson G12B (A311D) Revision 29:b (10:2)",
                "Amlogic Meson G12B (A311D) Revision 29:b",
                "10:2",
            ),
            (
                "Amlogic Meson G12B (A311D)",
                "Amlogic Meson G12B (A311D)",
                "",
            ),
            ("Toy 5 (Edge face)", "Toy 5 (Edge face)", ""),
            ("Toy )", "Toy )", ""),
            (
                "Snapdragon 498 rev 1.0, Qualcomm QCS6490",
                "Snapdragon 498 rev 1.0, Qualcomm QCS6490",
                "",
            ),
        ] {
            assert_eq!(chip_of(text), (chip, Some(id).filter(|id| !id.is_empty())));
        }
        assert_eq!(
            named_as("[Board A<br />(Chip 3)](x.txt)"),
            "Board A (Chip 3)"
        );
    }
}

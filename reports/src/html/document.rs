//! A text in Markdown with its plots as one page that needs nothing else.

use maud::{DOCTYPE, PreEscaped, html};
use pulldown_cmark::{Event, Options, Parser};
use screen::visible;

use super::head;
use super::plots::figure;
use crate::plot::{DrawError, Plot};

/// Nothing is fetched or run, whatever the texts say.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The page of a text whose first heading is its title, with plots after it.
pub fn document(title: &str, markdown: &str, plots: &[impl Plot]) -> Result<String, DrawError> {
    // What looks like HTML in a text that a user wrote is text.
    let (title, markdown) = (visible(title), visible(markdown));
    let events = Parser::new_ext(&markdown, Options::ENABLE_TABLES).map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        other => other,
    });
    let mut body = String::new();
    pulldown_cmark::html::push_html(&mut body, events);
    let body = body
        .replace("<table>", "<div class=\"wide\"><table>")
        .replace("</table>", "</table></div>");
    let figures = plots.iter().map(figure).collect::<Result<Vec<_>, _>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title, POLICY))
            body {
                main.text {
                    (PreEscaped(body))
                    @if !figures.is_empty() {
                        h2 { "Figures" }
                        div.plots { @for figure in &figures { (figure) } }
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Point, Scatter};

    #[test]
    fn tables_and_plots_are_there_and_tags_of_a_text_are_text() {
        let scatter = Scatter {
            title: "Times".into(),
            what: "time".into(),
            unit: "s".into(),
            band: 0.1,
            points: vec![Point {
                group: "a".into(),
                measured: 1.0,
                predicted: 1.05,
                interval: None,
                calibration: false,
            }],
        };
        let text = "# T\n\n| a | b |\n| - | -:|\n| <script>x()</script> | 2 |\n\n<b>bold</b>\n";
        let page = document("T", text, &[scatter]).expect("it can be drawn");
        assert!(
            page.contains("<td>&lt;script&gt;x()&lt;/script&gt;</td>"),
            "{page}"
        );
        assert!(page.contains("&lt;b&gt;bold"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        assert!(
            page.contains("1 of 1 predictions of time are within 10 %"),
            "{page}"
        );
        assert!(page.contains("<svg"), "{page}");
    }
}

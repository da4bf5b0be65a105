// Package page renders reports of package bench as one HTML page without scripts or network access, and as SVG files. All text of a
// report is escaped, and the page's policy forbids loading or running anything.
package page

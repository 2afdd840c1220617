/** Workbooks with number formats: .xlsx, .xlsb and the records of .xls. */
import { relations, zip } from './office-files.ts'

const types = { '[Content_Types].xml': '<Types/>' }

/** One sheet of number cells, each `[value, format code]`; `further` are elements after the cells. */
export function formattedXlsx(cells: readonly (readonly [number, string])[], further = '', workbook = ''): Buffer {
  const codes = cells.map(([, code], i) => `<numFmt numFmtId="${200 + i}" formatCode="${code.replaceAll('"', '&quot;')}"/>`)
  const styles = cells.map((_, i) => `<xf numFmtId="${200 + i}"/>`)
  const values = cells.map(([value], i) => `<c s="${i}"><v>${value}</v></c>`)
  return zip({
    ...types,
    '_rels/.rels': relations({ r1: ['officeDocument', 'xl/workbook.xml'] }),
    'xl/workbook.xml': `<workbook>${workbook}<sheets><sheet name="Sheet" r:id="r1"/></sheets></workbook>`,
    'xl/_rels/workbook.xml.rels': relations({ r1: ['worksheet', 'sheet1.xml'], r2: ['styles', 'styles.xml'] }),
    'xl/styles.xml': `<styleSheet><numFmts>${codes.join('')}</numFmts><cellXfs>${styles.join('')}</cellXfs></styleSheet>`,
    'xl/sheet1.xml': `<worksheet><sheetData><row>${values.join('')}</row></sheetData>${further}</worksheet>`,
    'xl/_rels/sheet1.xml.rels': relations({ r1: ['drawing', 'drawing1.xml'] }),
    'xl/drawing1.xml': '<xdr:wsDr><a:p><a:r><a:t>text box</a:t></a:r></a:p></xdr:wsDr>',
    'xl/_rels/drawing1.xml.rels': relations({ r1: ['chart', 'chart1.xml'] }),
    'xl/chart1.xml': '<c:chart><c:strCache><c:pt><c:v>March</c:v></c:pt><c:pt><c:v>April</c:v></c:pt></c:strCache></c:chart>',
  })
}

type Field = number | string | { u16: number } | { u32: number } | { f64: number }

const bytesOf = (field: Field): Buffer => {
  if (typeof field === 'number') return Buffer.from([field])
  if (typeof field === 'string') return Buffer.from(field, 'latin1')
  const buffer = Buffer.alloc('u16' in field ? 2 : 'u32' in field ? 4 : 8)
  if ('u16' in field) buffer.writeUInt16LE(field.u16)
  else if ('u32' in field) buffer.writeUInt32LE(field.u32)
  else buffer.writeDoubleLE(field.f64)
  return buffer
}

/** A record of .xls: type, size, data. */
export function biff(kind: number, ...fields: Field[]): Buffer {
  const body = Buffer.concat(fields.map(bytesOf))
  return Buffer.concat([bytesOf({ u16: kind }), bytesOf({ u16: body.length }), body])
}

/** A record of .xlsb: type and size in groups of seven bits. */
export function biff12(kind: number, ...fields: (Field | { wide: string })[]): Buffer {
  const body = Buffer.concat(
    fields.map((field) =>
      typeof field === 'object' && 'wide' in field
        ? Buffer.concat([bytesOf({ u32: field.wide.length }), Buffer.from(field.wide, 'utf16le')])
        : bytesOf(field),
    ),
  )
  const groups = (value: number): number[] => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...groups(value >> 7)])
  return Buffer.concat([Buffer.from(groups(kind)), Buffer.from(groups(body.length)), body])
}

/** A workbook of records with one sheet. */
export const xlsb = (styles: readonly Buffer[], strings: readonly Buffer[], sheet: readonly Buffer[]): Buffer =>
  zip({
    ...types,
    '_rels/.rels': relations({ r1: ['officeDocument', 'xl/workbook.bin'] }),
    'xl/workbook.bin': biff12(156, { u32: 0 }, { u32: 1 }, { wide: 'r1' }, { wide: 'Binary' }),
    'xl/_rels/workbook.bin.rels': relations({ r1: ['worksheet', 's.bin'], r2: ['styles', 'f.bin'], r3: ['sharedStrings', 't.bin'] }),
    'xl/f.bin': Buffer.concat(styles),
    'xl/t.bin': Buffer.concat(strings),
    'xl/s.bin': Buffer.concat(sheet),
  })

/** The programs of the report, in the order in which they run. */

export interface Program {
  /** Name of the file in bench/. */
  readonly name: string
  readonly title: string
  /** Options of a whole run. */
  readonly whole: readonly string[]
  /** Options of `npm run bench -- --short`. */
  readonly short: readonly string[]
  /** Programs that it compares with, by Debian package. It leaves out what is missing. */
  readonly packages?: readonly string[]
  /** It cannot run without these commands. */
  readonly requires?: readonly string[]
  /** What the figures mean. */
  readonly note: string
}

export const programs: readonly Program[] = [
  {
    name: 'api',
    title: 'API',
    whole: ['10000', '5'],
    short: ['2000', '2'],
    packages: ['wrk'],
    requires: ['wrk'],
    note: '32 connections. The bare handlers run the same SQL in `node:http`, without sign-in, limits or checks: one over a `pg` pool, one over the pipelined connection on which dms reads.',
  },
  {
    name: 'costs',
    title: 'Costs of a document',
    whole: ['--texts', '5000', '--pdfs', '500', '--scans', '20'],
    short: ['--texts', '1000', '--pdfs', '100', '--scans', '4'],
    note: 'Processor time of all processes, on one document or request. OCR by tesseract.js with the models of npm, unless the program `tesseract` is installed. [scaling.md](scaling.md) computes from these figures.',
  },
  {
    name: 'upload',
    title: 'Uploads',
    whole: [],
    short: ['--size', '200', '--rounds', '3'],
    note: 'The bare handler hashes, writes and flushes. The worker of dms reads the files meanwhile, on the same cores.',
  },
  {
    name: 'archive',
    title: 'An archive of small documents',
    whole: ['--documents', '200000'],
    short: ['--documents', '2000'],
    note: 'Text files of 2 kB. Commands over HTTP as the first admin; backup, verification and check on the machine of the server.',
  },
  {
    name: 'search',
    title: 'Search',
    whole: ['--documents', '100000'],
    short: ['--documents', '20000', '--queries', '30'],
    note: 'Whole HTTP requests of one client, with highlights and facets, over a warm cache.',
  },
  {
    name: 'search-write',
    title: 'Indexing',
    whole: [],
    short: ['--documents', '1000'],
    note: 'Texts of 1,400 words, drawn evenly from 30,000: nearly every word is a new posting. The peer is the text itself.',
  },
  {
    name: 'ocr',
    title: 'OCR',
    whole: [],
    short: ['--pages', '4', '--rounds', '1'],
    packages: ['tesseract-ocr', 'ocrmypdf'],
    note: 'Dense A4 scans. `best_int` are the models that npm brings, `fast` those of Debian.',
  },
  {
    name: 'pdf',
    title: 'Text of PDFs',
    whole: [],
    short: [],
    packages: ['poppler-utils'],
    note: 'PDFs that the program makes. A warm reader process, and a process of `pdftotext` for each file.',
  },
  {
    name: 'pdfa',
    title: 'Searchable PDF/A',
    whole: [],
    short: ['--pages', '4', '--rounds', '1'],
    packages: ['tesseract-ocr', 'ocrmypdf'],
    note: 'Dense A4 scans, OCR included. `best_int` are the models that npm brings, `fast` those of Debian, which `ocrmypdf` uses.',
  },
  {
    name: 'sync',
    title: 'Sync from WebDAV',
    whole: [],
    short: ['--files', '1000', '--rounds', '1'],
    packages: ['apache2', 'rclone'],
    note: 'The bare loop lists, downloads and writes with as many connections, and makes no documents.',
  },
  {
    name: 'backup',
    title: 'Backup',
    whole: [],
    short: ['--documents', '5000'],
    note: 'Documents with 2,000 letters of text and a file of 4 kB.',
  },
  {
    name: 'database-upgrade',
    title: 'Upgrade of the embedded PostgreSQL',
    whole: [],
    short: ['--documents', '3000'],
    note: 'From 17 to 18, with the search index. Every table is compared by checksums; the old database stays.',
  },
  {
    name: 'ws',
    title: 'Events over WebSockets',
    whole: [],
    short: ['--sockets', '200', '--seconds', '5'],
    note: 'From the begin of the transaction in another process until a client has the message.',
  },
  {
    name: 'fleet',
    title: 'Several workers and servers',
    whole: ['--rounds', '3'],
    short: ['--scans', '3', '--seconds', '2', '--rounds', '1'],
    packages: ['wrk'],
    note: 'Workers with one slot read scans; servers answer `GET /api/documents/{id}`. By processor time means: a process uses one core, and PostgreSQL the rest.',
  },
  {
    name: 'cli',
    title: 'Commands',
    whole: [],
    short: ['--rounds', '8'],
    note: 'Whole processes. `dms documents list` runs beside a server.',
  },
]

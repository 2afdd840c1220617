/** The variables of this process. Nothing else reads them; in a file of its own, because every command needs them and few need the settings. */
export const environment = (): NodeJS.ProcessEnv => process.env

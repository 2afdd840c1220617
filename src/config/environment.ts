/** Returns the environment variables. Only this file reads them; few of the commands that import it load the settings. */
export const environment = (): NodeJS.ProcessEnv => process.env
